// Puts the clocks of several hosts side by side.
#pragma once

#include <string>
#include <vector>

#include "trace/reader.h"

namespace xoe::trace {

struct ClockInput {
  TraceInfo info;
  std::int64_t first_ns = 0;  // the earliest event, after the file's moment 0
};

struct ClockShift {
  std::int64_t shift_ns = 0;  // added to a file's times, gives those of the reference clock
  std::int64_t uncertainty_ns = 0;
  std::string how;  // "told", "same host", "wall clock", "reference", "first event"
};

// One for each input. A file that tells no offset is placed by another of the same host; else by the wall clock, with a
// warning; one that is not Xoe's so that its first event is the first of all.
std::vector<ClockShift> align_clocks(const std::vector<ClockInput>& files, std::vector<std::string>& warnings);

}  // namespace xoe::trace
