// Sleeping and waking between ranks, at no cost to a rank that publishes while nobody sleeps.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>
#include <vector>

#include "backend/shm/layout.h"

namespace xoe::shm {

using Clock = std::chrono::steady_clock;

// Makes this process take part in membarrier; false when the kernel or a seccomp filter refuses.
bool register_membarrier() noexcept;

// Wakes whoever sleeps at `bell`.
void ring(Bell& bell) noexcept;

// Publishing and going to sleep race: the publisher stores its data and then reads `sleepers`; the sleeper raises
// `sleepers` and then reads the data. One of them must see the other, so a store-load fence is needed on both sides.
// With membarrier the sleeper alone pays: it fences all ranks from outside, and the publisher keeps the
// compiler in order only.
class Bells {
 public:
  // bells: by rank. sleepers: of all bells of the job. asymmetric: all ranks have registered for membarrier.
  Bells(std::vector<Bell*> bells, std::atomic<std::uint32_t>& sleepers, int rank, bool asymmetric)
      : bells_(std::move(bells)), sleepers_(&sleepers), rank_(rank), asymmetric_(asymmetric) {}

  // After publishing anything that a peer may wait for.
  void publish() const noexcept {
    if (asymmetric_)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    else
      std::atomic_thread_fence(std::memory_order_seq_cst);
    if (sleepers_->load(std::memory_order_relaxed) != 0) [[unlikely]]
      ring_sleepers();
  }

  // Sleeps until somebody rings, or until `until`. `ready()` is asked once after the intention to sleep is
  // visible to all; if true, returns at once.
  template <class Ready>
  void sleep(Ready&& ready, Clock::time_point until) const {
    std::uint32_t heard = 0;
    // Unfenced, a publisher may miss this sleeper: then it looks again by itself.
    if (!begin_sleep(heard)) until = std::min(until, Clock::now() + std::chrono::milliseconds(1));
    if (!ready()) wait(heard, until);
    end_sleep();
  }

  void ring_all() const noexcept;

 private:
  bool begin_sleep(std::uint32_t& heard) const noexcept;  // false: could not fence
  void wait(std::uint32_t heard, Clock::time_point until) const noexcept;
  void end_sleep() const noexcept;
  void ring_sleepers() const noexcept;

  std::vector<Bell*> bells_;
  std::atomic<std::uint32_t>* sleepers_;
  int rank_;
  bool asymmetric_;
};

}  // namespace xoe::shm
