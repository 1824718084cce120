#include "core/engine/messages/ring_link.h"

#include <algorithm>
#include <cstring>

namespace xoe::engine {

std::size_t RingLink::write(std::span<const std::byte> bytes) {
  const std::uint64_t written = ring_.written.load(std::memory_order_relaxed);
  const auto used = static_cast<std::size_t>(written - ring_.read.load(std::memory_order_acquire));
  const std::size_t count = std::min(bytes.size(), capacity_ - used);
  if (count == 0) return 0;
  const auto at = static_cast<std::size_t>(written % capacity_);
  const std::size_t first = std::min(count, capacity_ - at);
  std::memcpy(ring_.bytes() + at, bytes.data(), first);
  if (count > first) std::memcpy(ring_.bytes(), bytes.data() + first, count - first);
  ring_.written.store(written + count, std::memory_order_release);
  return count;
}

std::size_t RingLink::read(std::span<std::byte> into) {
  const std::uint64_t read = ring_.read.load(std::memory_order_relaxed);
  const auto there = static_cast<std::size_t>(ring_.written.load(std::memory_order_acquire) - read);
  const std::size_t count = std::min(into.size(), there);
  if (count == 0) return 0;
  const auto at = static_cast<std::size_t>(read % capacity_);
  const std::size_t first = std::min(count, capacity_ - at);
  std::memcpy(into.data(), ring_.bytes() + at, first);
  if (count > first) std::memcpy(into.data() + first, ring_.bytes(), count - first);
  ring_.read.store(read + count, std::memory_order_release);
  return count;
}

}  // namespace xoe::engine
