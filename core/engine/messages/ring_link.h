// Bytes to a rank of this host, through memory that both map.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/engine/messages/byte_link.h"

namespace xoe::engine {

// Zero at first. Positions only grow: the writer publishes bytes by `written`, the reader gives them back by `read`.
// The bytes follow.
struct Ring {
  static constexpr std::size_t kLine = 64;

  alignas(kLine) std::atomic<std::uint64_t> written;
  alignas(kLine) std::atomic<std::uint64_t> read;

  std::byte* bytes() { return reinterpret_cast<std::byte*>(this) + sizeof(Ring); }
};

class RingLink final : public ByteLink {
 public:
  // capacity: of the bytes after the ring, which must outlive this.
  RingLink(Ring& ring, std::size_t capacity) : ring_(ring), capacity_(capacity) {}

  std::size_t write(std::span<const std::byte> bytes) override;
  std::size_t read(std::span<std::byte> into) override;

 private:
  Ring& ring_;
  const std::size_t capacity_;
};

}  // namespace xoe::engine
