// The services that an engine gives its process sets.
#pragma once

#include <atomic>

#include "core/engine/process_sets/progress_lock.h"
#include "core/engine/submission/submission.h"
#include "core/engine/telemetry/telemetry.h"
#include "core/engine/tuning/engine_tuner.h"
#include "xoe/status.h"

namespace xoe::engine {

class ProcessSet;

// The engine, for what concerns more than one process set.
class ProcessSetOwner {
 public:
  virtual ~ProcessSetOwner() = default;

  // Looks for lost ranks, unless another thread makes progress. Any thread.
  virtual void try_check_failures() = 0;

  // Called by the thread that makes progress:
  // `set` has failed; its submissions have not completed yet.
  virtual void failing(const ProcessSet& set, const Error& cause) = 0;
  // All ranks have joined `set`, and count unnamed operations from 0 again.
  virtual void all_joined(const ProcessSet& set) = 0;
  // Runs an internal operation that all ranks of the world have agreed to run now. It may block.
  virtual Status run_internal(Submission& submission) = 0;
};

// Shared by the process sets of a rank, and outlives them.
struct ProcessSetServices {
  Telemetry& telemetry;
  EngineTuner* tuner;  // null: this rank does not tune
  ProgressLock& progress_lock;
  std::atomic<int>& pending;  // submissions of all sets that have not completed
  ProcessSetOwner& owner;
};

}  // namespace xoe::engine
