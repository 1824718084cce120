// Events that one thread has recorded and that are not written yet.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

namespace xoe::trace {

// One cache line.
struct TimelineEvent {
  enum class Kind : std::uint8_t { kBar, kSpan, kMark };

  std::int64_t start_ns;
  std::int64_t stop_ns;
  std::uint64_t id;  // of a span
  std::array<std::int64_t, 3> values;
  std::array<std::uint16_t, 3> keys;  // interned; 0: none
  std::uint16_t name;
  std::uint16_t note;
  Kind kind;
  std::int32_t lane;  // of a span: the interned category
};
static_assert(sizeof(TimelineEvent) == 64);

// A wait-free queue of fixed size, with one recording and one writing thread.
class EventRing {
 public:
  explicit EventRing(std::size_t capacity)
      : mask_(std::bit_ceil(capacity) - 1),
        events_(new TimelineEvent[mask_ + 1]) {}  // the system maps memory when it is touched

  // The recording thread. False: full.
  bool push(const TimelineEvent& event) noexcept {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_seen_ > mask_) [[unlikely]] {
      tail_seen_ = tail_.load(std::memory_order_acquire);
      if (head - tail_seen_ > mask_) return false;
    }
    events_[head & mask_] = event;
    head_.store(head + 1, std::memory_order_release);
    return true;
  }

  // The writing thread: consumes all events, in order.
  template <class Take>
  void drain(Take&& take) {
    std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    for (const std::uint64_t head = head_.load(std::memory_order_acquire); tail != head; ++tail) {
      take(events_[tail & mask_]);
    }
    tail_.store(tail, std::memory_order_release);
  }

  std::size_t size() const noexcept {
    const std::uint64_t tail = tail_.load(std::memory_order_acquire);
    return static_cast<std::size_t>(head_.load(std::memory_order_acquire) - tail);
  }

  // A ring outlives its thread and is used by the next one.
  bool try_own() noexcept { return !owned_.exchange(true, std::memory_order_acquire); }
  void disown() noexcept { owned_.store(false, std::memory_order_release); }
  // The timeline has been destroyed.
  void close() noexcept { closed_.store(true, std::memory_order_relaxed); }
  bool closed() const noexcept { return closed_.load(std::memory_order_relaxed); }

 private:
  const std::uint64_t mask_;
  const std::unique_ptr<TimelineEvent[]> events_;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  std::uint64_t tail_seen_ = 0;  // of the recording thread
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  std::atomic<bool> owned_{true};
  std::atomic<bool> closed_{false};
};

}  // namespace xoe::trace
