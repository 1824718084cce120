// Sums up a trace: where the time went.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/trace/reader.h"
#include "core/trace/stats.h"

namespace xoe::trace {

// The bars of a lane, or the spans of a category.
struct TraceRow {
  std::string name;
  bool spans = false;
  LengthStats lengths;
  std::int64_t busy_ns = 0;  // time during which there was at least one
};

struct Overlap {
  std::int64_t compute_ns = 0;
  std::int64_t communication_ns = 0;
  std::int64_t common_ns = 0;  // communication while computing: hidden
};

// A rank's time from its first event to its last, divided: each moment counts once, for the first of these that
// happened then.
struct TimeShares {
  std::int64_t compute_ns = 0;
  std::int64_t input_ns = 0;          // waiting for data
  std::int64_t communication_ns = 0;  // not behind compute
  std::int64_t waiting_ns = 0;        // for other ranks: their tensors, or all of them to be done
  std::int64_t rest_ns = 0;
};

struct RankSummary {
  std::int64_t rank = 0;
  std::string name;           // "rank 3 (host b, pid 4410)"
  std::string host;           // "" if the file does not name it
  std::int64_t wall_ns = 0;   // from its first event to the end of its last
  std::int64_t input_ns = 0;  // waiting for data
  Overlap overlap;
  TimeShares shares;
  std::vector<TraceRow> rows;
};

struct TensorWait {
  std::string tensor;
  LengthStats lengths;  // from submitted to agreed upon, over all ranks
  std::int64_t slowest_rank = 0;
};

// A rank that others waited for.
struct Straggler {
  std::int64_t rank = 0;
  std::uint64_t count = 0;      // tensors that another rank waited for
  std::int64_t waited_ns = 0;   // summed over the waiting ranks; tensors that wait at once count once
  std::int64_t longest_ns = 0;  // one tensor
};

struct TraceSummary {
  TraceInfo info;
  std::uint64_t events = 0;
  std::uint64_t dropped = 0;       // events that the ranks could not write
  std::uint64_t unfinished = 0;    // spans without an end
  std::int64_t wall_ns = 0;        // from the first event of any rank to the end of the last
  std::vector<RankSummary> ranks;  // by rank
  Overlap overlap;                 // sums over the ranks, as are the rows
  std::vector<TraceRow> rows;
  std::vector<TensorWait> tensors;  // longest total first
  std::vector<Straggler> stragglers;
};

// Compares no times of different ranks: `stragglers` are summed up from each rank's own times. So the file of one host
// and a merged one are treated alike. The errors of read_trace().
Result<TraceSummary> summarize_trace(const std::string& path, std::size_t tensors = 10, const TraceLimits& limits = {});

}  // namespace xoe::trace
