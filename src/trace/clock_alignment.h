// Aligns the clocks of several hosts.
#pragma once

#include <string>
#include <vector>

#include "trace/reader.h"

namespace xoe::trace {

struct ClockInput {
  TraceInfo info;
  std::int64_t first_ns = 0;  // the earliest event, relative to the file's time 0
};

struct ClockShift {
  std::int64_t shift_ns = 0;  // add it to a file's times to get times of the reference clock
  std::int64_t uncertainty_ns = 0;
  std::string how;  // "told", "same host", "wall clock", "reference", "first event"
};

// One shift for each input. A file without an offset takes the one of another file of the same host, else the wall
// clock decides, with a warning. A file of another program is shifted so that its first event is the first of all.
std::vector<ClockShift> align_clocks(const std::vector<ClockInput>& files, std::vector<std::string>& warnings);

}  // namespace xoe::trace
