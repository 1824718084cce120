// Any bytes as the answer of a cloud's metadata server, of a discovery script, or a file. Those that are taken show no
// control characters, and their lines are read as they were written.
#include <algorithm>
#include <string>

#include "launch/agents/host_discovery.h"
#include "launch/notice/answers.h"
#include "target.h"

XOE_FUZZ_TARGET(notice_fuzz) {
  using namespace xoe::notice;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto now = std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'000));
  for (const auto& answer : {parse_aws(text, now), parse_gcp_preempted(text, now), parse_gcp_maintenance(text, now),
                             parse_azure(text, "vm_1", now)}) {
    if (!answer || !*answer) continue;
    const std::string line = notice_line(**answer, now);
    const auto notice = parse_notice_line(line);
    xoe::require(notice && notice->left.count() >= 0);
    xoe::require(std::none_of(line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
  }
  if (const auto notice = parse_notice_line(text)) xoe::require(notice->left.count() >= 0);
  if (const auto hosts = xoe::launch::parse_discovered(text, 3))
    for (const auto& host : *hosts) xoe::require(!host.name.empty() && host.slots >= 1);
  return 0;
}
