#include "core/backend/shm/wakeup_channel.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "core/base/futex.h"

namespace xoe::shm {
namespace {

constexpr std::uint32_t kAsleep = 1;
constexpr std::uint32_t kOneWakeup = 2;

// A rank that was stopped between taking a sleeper's mark and its wake-up leaves the sleeper to itself.
constexpr std::chrono::nanoseconds kLongestWait = std::chrono::milliseconds(500);

constexpr std::uint32_t woken(std::uint32_t word) { return (word + kOneWakeup) & ~kAsleep; }

}  // namespace

bool register_membarrier() noexcept {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void wake(WakeupSlot& slot) noexcept {
  std::uint32_t word = slot.word.load(std::memory_order_seq_cst);
  while (!slot.word.compare_exchange_weak(word, woken(word), std::memory_order_seq_cst)) {
  }
  futex_wake_all(slot.word);
}

void WakeupChannel::wake_all() const noexcept {
  for (WakeupSlot* slot : slots_) wake(*slot);
}

void WakeupChannel::wake_sleepers() const noexcept {
  for (WakeupSlot* slot : slots_) {
    std::uint32_t word = slot->word.load(std::memory_order_seq_cst);
    if ((word & kAsleep) != 0 && slot->word.compare_exchange_strong(word, woken(word), std::memory_order_seq_cst))
      futex_wake_all(slot->word);
  }
}

bool WakeupChannel::begin_sleep(std::uint32_t& seen) const noexcept {
  seen = slots_[index(rank_)]->word.fetch_or(kAsleep, std::memory_order_seq_cst) | kAsleep;
  sleepers_->fetch_add(1, std::memory_order_seq_cst);
  if (asymmetric_) return ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return true;
}

void WakeupChannel::wait(std::uint32_t seen, Clock::time_point until) const noexcept {
  const auto left = until - Clock::now();
  if (left > Clock::duration::zero())
    futex_wait(slots_[index(rank_)]->word, seen, std::min<Clock::duration>(left, kLongestWait));
}

void WakeupChannel::end_sleep() const noexcept { sleepers_->fetch_sub(1, std::memory_order_seq_cst); }

}  // namespace xoe::shm
