// Assigns a ring to each recording thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/trace/event_ring.h"

namespace xoe::trace {

// The rings of one timeline: one per recording thread, reused when a thread has ended.
class ThreadRings {
 public:
  explicit ThreadRings(std::size_t capacity);
  ~ThreadRings();
  ThreadRings(const ThreadRings&) = delete;
  ThreadRings& operator=(const ThreadRings&) = delete;

  // The ring of this thread.
  EventRing& own() {
    const Last& last = last_used();
    return last.owner == id_ ? *last.ring : find_own();
  }
  std::vector<std::shared_ptr<EventRing>> all() const;

 private:
  struct Last {
    std::uint64_t owner;  // ids count from 1 and are never used again
    EventRing* ring;
  };
  struct OfThread;
  static Last& last_used() {
    static thread_local constinit Last last = {0, nullptr};
    return last;
  }
  static OfThread& of_thread();
  EventRing& find_own();
  std::shared_ptr<EventRing> take_ring();

  const std::uint64_t id_;
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<EventRing>> rings_;
};

}  // namespace xoe::trace
