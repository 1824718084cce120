// Merges the traces of several hosts into one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/trace/reader.h"

namespace xoe::trace {

struct ClockShift {
  std::int64_t shift_ns = 0;  // add it to a file's times to get times of the reference clock
  std::int64_t uncertainty_ns = 0;
  std::string how;  // "told", "same host", "wall clock", "reference", "first event"
};

struct MergeOptions {
  std::vector<std::string> inputs;
  std::string output;
  bool replace = false;  // an existing output
  // Ranks that are in several files, other than those of one job; else they are an error.
  bool renumber = false;
  TraceLimits limits;  // of events: over all files
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

// A rank that is in several files of one job has gone on there, on another host: it stays one. Sorts events by the time
// of the reference host's clock, with 40 bytes of memory per event. The output appears as a whole or not at all.
// `invalid_argument`: a rank is in two files, or the output exists or is an input. Else the errors of read_trace().
Result<MergeReport> merge_traces(const MergeOptions& options);

struct UnnamedTrace {
  MergeReport report;
  Fd file;
  // For read_trace(), for as long as `file` is open.
  std::string path() const;
};
// The same into a file of `folder` that has no name: only this user can read it, and nothing is left of it once it is
// closed or the process has ended in any way. `output` and `replace` play no part.
Result<UnnamedTrace> merge_unnamed(const MergeOptions& options, const std::string& folder);

}  // namespace xoe::trace
