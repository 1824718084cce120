// One trace out of the traces of several hosts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/clock_alignment.h"
#include "trace/reader.h"

namespace xoe::trace {

struct MergeOptions {
  std::vector<std::string> inputs;
  std::string output;
  bool replace = false;   // what is at `output`
  bool renumber = false;  // ranks that are in several files, instead of an error
  TraceLimits limits;     // of events: over all files
};

struct MergeReport {
  struct File {
    TraceInfo info;
    ClockShift clock;
    std::uint64_t events = 0;
    std::vector<std::int64_t> ranks;  // as numbered in the output
  };
  std::vector<File> files;
  std::uint64_t events = 0;
  std::int64_t length_ns = 0;  // from the first event to the end of the last
  std::vector<std::string> warnings;
};

// Events in the order of time, of the reference host's clock; 40 bytes of memory an event. The output appears whole, or
// not at all. `invalid_argument`: a rank is in two files, or the output is there or is an input. Else read_trace's
// errors.
Result<MergeReport> merge_traces(const MergeOptions& options);

}  // namespace xoe::trace
