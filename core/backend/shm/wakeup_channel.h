// Sleeping and waking between ranks. A rank that publishes while no rank sleeps pays nothing.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>
#include <vector>

#include "core/backend/shm/layout.h"

namespace xoe::shm {

using Clock = std::chrono::steady_clock;

// Makes this process take part in membarrier; false when the kernel or a seccomp filter refuses.
bool register_membarrier() noexcept;

// Wakes every thread that sleeps on `slot`.
void wake(WakeupSlot& slot) noexcept;

// Invariants:
// 1. A publisher stores its data and then reads `sleepers`; a sleeper raises `sleepers` and then reads the data. A
// fence
//    between store and load on both sides makes at least one of them see the other, so no wakeup is lost.
// 2. Where all ranks have registered for membarrier, the sleeper alone pays: it fences all ranks from outside, and the
//    publisher only keeps the compiler from reordering. Otherwise both sides execute a fence.
// 3. A sleeper marks its slot's `word` before it raises `sleepers`, and the futex sleeps only while `word` has that
//    value: a wake() in between ends the sleep at once.
// 4. A publisher that finds the mark takes it away and wakes all sleepers of the slot, so that a sleep is ended once,
//    however much is published before the sleeper runs. One that finds no mark wakes no thread: either the sleeper is
//    awake already, or it marks its slot later, and then its fence, which follows the mark, shows it the data.
class WakeupChannel {
 public:
  // slots: by rank. sleepers: the number of sleeping threads of all groups. asymmetric: all ranks have registered for
  // membarrier.
  WakeupChannel(std::vector<WakeupSlot*> slots, std::atomic<std::uint32_t>& sleepers, int rank, bool asymmetric)
      : slots_(std::move(slots)), sleepers_(&sleepers), rank_(rank), asymmetric_(asymmetric) {}

  // Call after publishing anything that a peer may wait for.
  void publish() const noexcept {
    if (asymmetric_)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
    if (sleepers_->load(std::memory_order_relaxed) != 0) [[unlikely]]
      wake_sleepers();
  }

  // Sleeps until woken or until `until`, and at most for half a second. Calls `ready()` once after all ranks can see
  // that this thread goes to sleep, and returns at once if it says true.
  template <class Ready>
  void sleep(Ready&& ready, Clock::time_point until) const {
    std::uint32_t seen = 0;
    // Without the fence a publisher may miss this sleeper, which then has to look again by itself.
    if (!begin_sleep(seen)) until = std::min(until, Clock::now() + std::chrono::milliseconds(1));
    if (!ready()) wait(seen, until);
    end_sleep();
  }

  void wake_all() const noexcept;

 private:
  bool begin_sleep(std::uint32_t& seen) const noexcept;  // false: the fence failed
  void wait(std::uint32_t seen, Clock::time_point until) const noexcept;
  void end_sleep() const noexcept;
  void wake_sleepers() const noexcept;

  std::vector<WakeupSlot*> slots_;
  std::atomic<std::uint32_t>* sleepers_;
  int rank_;
  bool asymmetric_;
};

}  // namespace xoe::shm
