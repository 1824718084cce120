// What a process set tells the engine that it belongs to.
#pragma once

#include <optional>

#include "engine/operations.h"
#include "engine/submission.h"

namespace xoe::engine {

class ProcessSet;

// Called by the thread that drives.
class SetObserver {
 public:
  virtual ~SetObserver() = default;
  // All ranks have `submission`; it will run, or has failed. last: the world rank that came last; `waited` after this one.
  virtual void agreed(const ProcessSet& set, Submission& submission, int last, std::chrono::nanoseconds waited) = 0;
  virtual void batch_done(const ProcessSet& set, const Running& running, const Status& status) = 0;
  // Right before `submission` completes.
  virtual void completing(const ProcessSet& set, Submission& submission, const Status& status) = 0;
  // What went wrong with the world's communicator, if anything has: there ranks have their proper numbers.
  virtual std::optional<Error> world_failure() = 0;
  // A set has failed; its submissions are about to be told.
  virtual void failing() = 0;
  // Runs an internal operation that all ranks of the world agree to run now. It may block.
  virtual Status run_internal(Submission& submission) = 0;
};

}  // namespace xoe::engine
