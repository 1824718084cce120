// Traces: any bytes as a file. The first byte chooses whether Xoe's header is put in front of them, so that reading by
// line is reached, too. Traces that can be read are merged and summed up, and the merged file must be readable as a
// whole.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "core/trace/file.h"
#include "core/trace/merge.h"
#include "core/trace/summary.h"
#include "target.h"

namespace {

constexpr xoe::trace::TraceLimits kLimits = {.line_bytes = 1 << 12, .foreign_bytes = 1 << 20, .events = 1 << 12};

int file_with(const std::string& content) {
  const int fd = ::memfd_create("trace", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, content.data(), content.size()) != static_cast<ssize_t>(content.size())) std::abort();
  return fd;
}

std::string path_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}  // namespace

XOE_FUZZ_TARGET(trace_fuzz) {
  if (size == 0) return 0;
  static const std::string out = "/dev/shm/xoe-test-trace-fuzz-" + std::to_string(::getpid()) + ".json";
  std::string content(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  const bool ours = bytes[0] % 2 == 1;
  if (ours) content.insert(0, xoe::trace::trace_header_line({"host", "boot", 1000, 2000}));
  const int first = file_with(content);
  const int second = file_with(content);

  const auto alone = xoe::trace::summarize_trace(path_of(first), 5, kLimits);
  if (alone && alone->ranks.size() > alone->events) std::abort();

  xoe::trace::MergeOptions options;
  options.inputs = {path_of(first), path_of(second)};
  options.output = out;
  options.replace = true;
  options.renumber = true;
  options.limits = kLimits;
  if (const auto report = xoe::trace::merge_traces(options)) {
    const auto again = xoe::trace::summarize_trace(out, 5, {.line_bytes = 1 << 20});
    if (!again || again->info.cut_at || again->info.ignored > 0 || again->events != report->events) std::abort();
  }
  ::unlink(out.c_str());
  ::close(first);
  ::close(second);
  return 0;
}
