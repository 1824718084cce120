// Where a pipeline's time goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "xoe/data/stage.h"

namespace xoe::data {

// One step of the work on elements, over all threads.
struct StepReport {
  std::string name;        // "read", "decode", ...
  double seconds = 0;      // of threads' time
  std::int64_t count = 0;  // elements
  std::int64_t bytes = 0;  // that came out of it
};

// The work of a pool's threads since its start, or its last restart. Seconds are wall time; those of threads add up.
struct ThreadPoolStats {
  int threads = 0;        // in use now
  std::size_t depth = 0;  // now
  int most_threads = 0;
  std::size_t most_depth = 0;
  double seconds = 0;            // since the start
  double working = 0;            // threads' time in tasks; without threads the consumer's
  double pulling = 0;            // the same in the upstream
  double idle = 0;               // threads' time without work because the consumer had not taken what was ready
  double waited = 0;             // the consumer's time in take()
  std::int64_t taken = 0;        // jobs
  std::int64_t tasks = 0;        // of those taken
  double ready = 0;              // complete jobs that take() found, on average
  std::string last_tuning = {};  // "3 threads -> 4: ...", empty when nothing was tuned
};

struct PipelineReport {
  std::vector<StageReport> stages;  // what feeds a stage comes before it; the last one feeds the consumer
  std::vector<StepReport> steps;    // of open_images(); else empty
  ThreadPoolStats making;           // threads, batches in flight, waits
  std::int64_t elements = 0;        // delivered
  std::int64_t batch_bytes = 0;
  int cpus = 0;  // that this process was given

  double seconds() const noexcept { return making.seconds; }
  double elements_per_second() const noexcept;
  // Share of the time since the first batch was asked for that the consumer spent waiting.
  double stall_share() const noexcept;
  // What the threads in use could deliver if the consumer always took at once.
  double capacity() const noexcept;
};

// Of any iterator, at any time, by the thread that calls its next(). `processes` of this host share its CPUs. In
// `making` are the sums over all stages with threads of their own and what the consumer waited.
PipelineReport report_of(std::vector<StageReport> stages, int processes);
inline PipelineReport report(const AnyIterator& iterator, int processes = 1) {
  return report_of(iterator.stages(), processes);
}

// Names the bottleneck, and what would help, in a line or two for people.
std::string explain(const PipelineReport& report);

// The report as a table for people, with explain() at its end.
std::string to_table(const PipelineReport& report);

}  // namespace xoe::data
