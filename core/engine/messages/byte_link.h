// One direction of what carries bytes from one rank to another, in order.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace xoe::engine {

// Never blocks. One thread at a time, at either end.
class ByteLink {
 public:
  virtual ~ByteLink() = default;

  // How many of the bytes it has taken; fewer than there are: it has no room now, or is closed.
  virtual std::size_t write(std::span<const std::byte> bytes) = 0;
  // Whether what it has taken is on its way, so that this process may end.
  virtual bool flushed() { return true; }
  // How many bytes it has given; 0: none are there, or it is closed.
  virtual std::size_t read(std::span<std::byte> into) = 0;

  // The other end is gone, and all that it sent has been read.
  virtual bool closed() const noexcept { return false; }
  // Notices that the other end is gone, on a link that is only written to.
  virtual void look() {}
  // Why it was closed, if the other end did not do so.
  virtual std::string_view reason() const noexcept { return {}; }
  // For poll(); -1: it has none.
  virtual int descriptor() const noexcept { return -1; }
};

}  // namespace xoe::engine
