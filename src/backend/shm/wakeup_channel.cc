#include "backend/shm/wakeup_channel.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace xoe::shm {
namespace {

// Not the private form: the sleeper and the waker may be different processes.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) noexcept {
  static_assert(sizeof word == sizeof(std::uint32_t));
  return ::syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

bool register_membarrier() noexcept {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void wake(WakeupSlot& slot) noexcept {
  slot.word.fetch_add(1, std::memory_order_seq_cst);
  futex(slot.word, FUTEX_WAKE, INT_MAX, nullptr);
}

void WakeupChannel::wake_all() const noexcept {
  for (WakeupSlot* slot : slots_) wake(*slot);
}

void WakeupChannel::wake_sleepers() const noexcept {
  for (WakeupSlot* slot : slots_)
    if (slot->asleep.load(std::memory_order_seq_cst) != 0) wake(*slot);
}

bool WakeupChannel::begin_sleep(std::uint32_t& seen) const noexcept {
  WakeupSlot& mine = *slots_[index(rank_)];
  seen = mine.word.load(std::memory_order_seq_cst);
  mine.asleep.fetch_add(1, std::memory_order_seq_cst);
  sleepers_->fetch_add(1, std::memory_order_seq_cst);
  if (asymmetric_) return ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return true;
}

void WakeupChannel::wait(std::uint32_t seen, Clock::time_point until) const noexcept {
  const auto left = until - Clock::now();
  if (left <= Clock::duration::zero()) return;
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
  const timespec timeout{static_cast<time_t>(nanoseconds / 1'000'000'000),
                         static_cast<long>(nanoseconds % 1'000'000'000)};
  futex(slots_[index(rank_)]->word, FUTEX_WAIT, seen, &timeout);
}

void WakeupChannel::end_sleep() const noexcept {
  sleepers_->fetch_sub(1, std::memory_order_seq_cst);
  slots_[index(rank_)]->asleep.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace xoe::shm
