// What a process set tells the engine that it belongs to.
#pragma once

#include <atomic>

#include "engine/execute/operations.h"
#include "engine/submission.h"

namespace xoe::engine {

class ProcessSet;

// Called by the thread that drives, unless said otherwise.
class SetObserver {
 public:
  virtual ~SetObserver() = default;
  // Looks for lost ranks unless somebody drives. Any thread.
  virtual void look_for_failures() = 0;
  // Submissions of all sets that are not completed. Any thread.
  std::atomic<int>& pending() noexcept { return pending_; }
  // All ranks have `submission`; it will run, or has failed. last: the world rank that came last; `waited` after this
  // one.
  virtual void agreed(const ProcessSet& set, Submission& submission, int last, std::chrono::nanoseconds waited) = 0;
  virtual void batch_done(const ProcessSet& set, const Running& running, const Status& status) = 0;
  // Right before `submission` completes.
  virtual void completing(const ProcessSet& set, Submission& submission, const Status& status) = 0;
  // A set has failed; its submissions are about to be told.
  virtual void failing(const ProcessSet& set, const Error& cause) = 0;
  // All ranks have joined this set; they go on from here alike.
  virtual void all_joined(const ProcessSet& set) = 0;
  // Runs an internal operation that all ranks of the world agree to run now. It may block.
  virtual Status run_internal(Submission& submission) = 0;

 private:
  std::atomic<int> pending_{0};
};

}  // namespace xoe::engine
