#include "core/base/process_use.h"

#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <string>

#include "core/base/machine.h"
#include "core/base/text.h"

namespace xoe {
namespace {

double clock_seconds(clockid_t clock) {
  timespec now = {};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

double process_cpu_seconds() {
  rusage used = {};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double thread_cpu_seconds() { return clock_seconds(CLOCK_THREAD_CPUTIME_ID); }

// The kernel notes the start in ticks since it booted, as the 22nd field; the second one may hold spaces.
double process_age_seconds() {
  const auto line = read_line("/proc/self/stat");
  const auto end = line ? line->rfind(") ") : std::string::npos;
  if (end == std::string::npos) return 0;
  const auto fields = split_text(line->substr(end + 2), ' ');
  const auto start = fields.size() > 19 ? parse_integer(fields[19]) : std::nullopt;
  if (!start) return 0;
  return clock_seconds(CLOCK_BOOTTIME) - static_cast<double>(*start) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::uint64_t process_memory_bytes() { return read_kilobytes("/proc/self/smaps_rollup", "Pss:"); }
std::uint64_t process_peak_bytes() { return read_kilobytes("/proc/self/status", "VmHWM:"); }

}  // namespace xoe
