#include "core/trace/thread_rings.h"

#include <algorithm>

namespace xoe::trace {
namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// Keeps this thread's rings of all timelines alive, and releases them when the thread ends.
struct ThreadRings::OfThread {
  struct Entry {
    std::uint64_t owner;
    std::shared_ptr<EventRing> ring;
  };
  std::vector<Entry> entries;

  ~OfThread() {
    last_used() = {0, nullptr};
    for (const Entry& entry : entries) entry.ring->disown();
  }
};

ThreadRings::ThreadRings(std::size_t capacity) : id_(next_id()), capacity_(capacity) {}

ThreadRings::~ThreadRings() {
  for (const auto& ring : rings_) ring->close();
}

ThreadRings::OfThread& ThreadRings::of_thread() {
  static thread_local OfThread rings;
  return rings;
}

EventRing& ThreadRings::find_own() {
  auto& entries = of_thread().entries;
  std::erase_if(entries, [](const OfThread::Entry& entry) { return entry.ring->closed(); });
  auto found = std::find_if(entries.begin(), entries.end(), [this](const auto& entry) { return entry.owner == id_; });
  if (found == entries.end()) found = entries.insert(found, {id_, take_ring()});
  last_used() = {id_, found->ring.get()};
  return *found->ring;
}

std::shared_ptr<EventRing> ThreadRings::take_ring() {
  const std::lock_guard lock(mutex_);
  for (const auto& ring : rings_) {
    if (ring->try_own()) return ring;
  }
  return rings_.emplace_back(std::make_shared<EventRing>(capacity_));
}

std::vector<std::shared_ptr<EventRing>> ThreadRings::all() const {
  const std::lock_guard lock(mutex_);
  return rings_;
}

}  // namespace xoe::trace
