// Events as lines of the trace file: docs/formats/timeline.md.
#pragma once

#include <string>
#include <string_view>

#include "trace/event_ring.h"
#include "trace/interned_names.h"
#include "trace/timeline.h"

namespace xoe::trace {

// The lane under which viewers without rows for spans list them.
inline constexpr int kSpanLane = 0;

class TimelineText {
 public:
  TimelineText(int rank, std::int64_t base_ns) : rank_(rank), base_ns_(base_ns) {}

  void add_event(std::string& lines, const TimelineEvent& event, const TimelineNames& names) const;
  void add_lane(std::string& lines, int lane, std::string_view name, int order) const;
  void add_process(std::string& lines, const TimelineOptions& options) const;
  void add_clock(std::string& lines, std::int64_t offset_ns, std::int64_t uncertainty_ns) const;
  void add_dropped(std::string& lines, std::uint64_t count, std::int64_t now_ns) const;

 private:
  void add_start(std::string& lines, std::string_view phase, int lane, std::int64_t at_ns) const;

  int rank_;
  std::int64_t base_ns_;
};

}  // namespace xoe::trace
