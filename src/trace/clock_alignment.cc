#include "trace/clock_alignment.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"

namespace xoe::trace {
namespace {

using Files = std::vector<ClockInput>;

bool same_host(const TraceInfo& a, const TraceInfo& b) { return !a.boot_id.empty() && a.boot_id == b.boot_id; }

// How far the wall clock is ahead of the monotonic one. Nothing overflows: the reader has checked all numbers.
std::int64_t wall_offset(const TraceInfo& info) { return *info.wall_base_ns - info.base_ns; }

// The file that all files without an offset are aligned with.
const TraceInfo* reference_of(const Files& files) {
  const TraceInfo* reference = nullptr;
  for (const ClockInput& file : files) {
    if (!file.info.ours) continue;
    if (reference == nullptr || (!reference->clock && file.info.clock)) reference = &file.info;
  }
  return reference;
}

ClockShift shift_of(const TraceInfo& info, const TraceInfo& reference, const Files& files,
                    std::vector<std::string>& warnings) {
  if (info.clock) return {info.base_ns + info.clock->offset_ns, info.clock->uncertainty_ns, "told"};
  for (const ClockInput& other : files) {
    if (same_host(info, other.info) && other.info.clock) {
      return {info.base_ns + other.info.clock->offset_ns, other.info.clock->uncertainty_ns, "same host"};
    }
  }
  const std::int64_t offset = reference.clock ? reference.clock->offset_ns : 0;
  if (&info == &reference || same_host(info, reference)) return {info.base_ns + offset, 0, "reference"};
  const std::int64_t by_wall =
      info.wall_base_ns && reference.wall_base_ns ? wall_offset(info) - wall_offset(reference) : kClockLimitNs;
  if (std::abs(by_wall) < kClockLimitNs) {
    warnings.push_back(fmt::format(
        "{}: no clock offset was recorded; placed by the wall clocks of {} and {}, which may differ by milliseconds",
        info.path, info.host, reference.host));
    return {info.base_ns + offset + by_wall, 0, "wall clock"};
  }
  warnings.push_back(fmt::format("{}: no clock offset was recorded, nor the wall clock; taken as that of {}", info.path,
                                 reference.path));
  return {info.base_ns + offset, 0, "reference"};
}

}  // namespace

std::vector<ClockShift> align_clocks(const Files& files, std::vector<std::string>& warnings) {
  std::vector<ClockShift> shifts(files.size());
  const TraceInfo* reference = reference_of(files);
  std::int64_t start = 0;
  bool any = false;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!files[i].info.ours) continue;
    shifts[i] = shift_of(files[i].info, *reference, files, warnings);
    const std::int64_t first = files[i].first_ns + shifts[i].shift_ns;
    start = any ? std::min(start, first) : first;
    any = true;
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].info.ours) continue;
    shifts[i] = {start - files[i].first_ns, 0, "first event"};
    warnings.push_back(
        fmt::format("{} was not written by Xoe: its first event is put at the start", files[i].info.path));
  }
  return shifts;
}

}  // namespace xoe::trace
