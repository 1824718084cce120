// A group's operations in order: posts them, advances them from every thread that waits, and ends them all at the first
// failure.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/shm/group.h"
#include "core/backend/shm/one_shot.h"
#include "core/backend/shm/operation.h"

namespace xoe::shm {

class OperationQueue {
 public:
  OperationQueue(Group group, WaitPolicy policy);
  ~OperationQueue();  // leaves, unless leave() was called

  const Group& group() const noexcept { return group_; }
  const WaitPolicy& policy() const noexcept { return policy_; }

  Status run(const Collective& collective);
  // As Backend::run_small().
  bool run_small(const ReduceCall& call, Status& status);
  // Advances all pending operations without blocking; the error is the first cause, once there is one.
  Status progress();
  // Warns of late peers, and fails the group when they are too late. For callers of progress() that have the time.
  void check_time();

  // An operation in the queue. Its owner returns it with release().
  struct Pending {
    explicit Pending(const Group& group) : operation(group) {}
    Operation operation;
    WaitLimits limits;
    std::optional<Clock::time_point> began;  // when the clock was first read for it
    StallTimer stall_timer;
    std::optional<Error> error;
    bool finished = false;
    bool released = false;
  };
  Pending& start(const Collective& collective);
  Status wait(Pending& pending);
  void release(Pending& pending);

  // Tells the peers, and fails the pending operations.
  void leave();
  // Fails the group on all ranks. Any thread.
  void abort(const Error& cause);
  // Another number whenever this rank or, where ranks do not share cores, any rank has taken a step of an operation.
  // Any thread.
  std::uint64_t steps() const noexcept;
  // The ranks that have left.
  std::vector<int> departed() const;
  // An extent of this rank's arena that is freed with the group. Any thread.
  void own(Context::Extent extent) {
    const std::lock_guard lock(extents_mutex_);
    extents_.push_back(extent);
  }

 private:
  bool slots_free(std::uint32_t number, std::size_t slots);
  bool can_post(const Operation& operation) {
    return slots_free(operation.number(), operation.uses_eager_slot() ? kEagerSlots : kHeaderSlots);
  }
  // May run_one_shot() run it?
  bool is_small(const ReduceCall& call) const;
  // The fast path of the most frequent calls: false when the call needs the general one. REQUIRES: one_shot_ is
  // prepared for the call. collective(): the call.
  template <class GetCollective>
  bool run_one_shot(const void* in, void* out, const GetCollective& collective, Status& status);
  Pending& take_idle(const Collective& collective);
  void advance();
  void finish_front();

  int first_lost() const;
  // Advances; then fails everything if a peer that is needed has ended or left.
  void check_peers(const Pending* waiting);
  void check_stall(Pending& pending, Clock::time_point now);
  std::string late_peers(const Operation& stuck, Clock::duration waited) const;
  void fail(Error cause, bool tell_peers);
  bool wait_for_peers_in_buffers() const;
  void take_back_outputs() const;
  Error recorded_failure(std::uint32_t failed_by) const;
  Error error_for(const Operation& operation) const;

  Group group_;
  WaitPolicy policy_;
  const std::size_t one_shot_limit_;  // bytes
  OneShot one_shot_;
  std::uint32_t last_number_ = kBeforeFirst;
  std::uint32_t all_done_ = kBeforeFirst;  // lower bound of the peers' `done`
  std::uint64_t next_round_ = 0;           // the first round of the next operation that has any
  std::vector<std::unique_ptr<Pending>> pool_;
  std::vector<Pending*> idle_;
  std::deque<Pending*> queue_;
  std::size_t posted_ = 0;  // the first so many of the queue
  unsigned progress_calls_ = 0;
  std::optional<Error> failure_;
  std::mutex extents_mutex_;
  std::vector<Context::Extent> extents_;
  bool left_ = false;
};

}  // namespace xoe::shm
