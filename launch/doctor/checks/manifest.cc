#include "launch/doctor/checks/manifest.h"

#include <fmt/format.h>

namespace xoe::doctor {

std::string manifest_lines(std::string_view container, std::string_view pod) {
  std::string lines = "spec:\n";
  if (!container.empty()) lines += fmt::format("  containers:\n  - name: NAME\n    {}\n", container);
  if (!pod.empty()) lines += fmt::format("  {}\n", pod);
  return lines;
}

std::string memory_limit_line(std::uint64_t bytes) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  return fmt::format("resources: {{limits: {{memory: {}Gi}}}}", bytes / kGiB + (bytes % kGiB == 0 ? 0 : 1));
}

}  // namespace xoe::doctor
