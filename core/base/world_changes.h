// How often this process has gone over to another version of the world, for its metrics.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace xoe {

// Any thread.
struct WorldChanges {
  std::atomic<std::uint64_t> count = 0;
  std::atomic<std::uint64_t> nanoseconds = 0;  // from the call that joins the next version until it has formed
  std::atomic<std::uint64_t> steps_redone = 0;

  void add(std::chrono::nanoseconds time) noexcept {
    count.fetch_add(1, std::memory_order_relaxed);
    nanoseconds.fetch_add(static_cast<std::uint64_t>(time.count()), std::memory_order_relaxed);
  }
};

inline WorldChanges& world_changes() noexcept {
  static WorldChanges changes;
  return changes;
}

}  // namespace xoe
