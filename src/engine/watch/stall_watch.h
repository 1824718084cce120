// Notices operations that some ranks have submitted and others have not, and ranks that wait for each other.
#pragma once

#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/process_set.h"
#include "engine/watch/stall.h"

namespace xoe::engine {

class StallWatch {
 public:
  // rank: of the world. options, with a `warn`, outlive this.
  StallWatch(const EngineOptions& options, int rank) : options_(options), rank_(rank) {}

  // A thread of this rank blocks until this is done. Any thread.
  void block(const Submission& submission);
  void unblock(const Submission& submission);

  // Looks at all sets, of which the first is the world; by the thread that drives, every period() while anything is
  // pending. Returns how many tensors are past the warning.
  std::size_t look(std::span<ProcessSet* const> sets);
  std::chrono::nanoseconds period() const;

 private:
  // Tells the other ranks what a thread of this one is blocked on.
  void publish(ProcessSet& world, const std::vector<ProcessSet::Waiting>& waiting);
  void look_for_deadlocks(ProcessSet& world);

  const EngineOptions& options_;
  int rank_;
  std::mutex mutex_;
  std::vector<const Submission*> blocked_;
  RankStatus* status_ = nullptr;  // where others read what this rank waits for
  std::string last_cycle_;        // seen at the last look; reported once it is seen again
  std::string reported_cycle_;
};

}  // namespace xoe::engine
