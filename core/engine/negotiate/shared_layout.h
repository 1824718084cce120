// Parts of a block of memory that the ranks of a host share.
#pragma once

#include <cstddef>

namespace xoe::engine {

// Hands out the parts one after the other, each on cache lines of its own. Without memory it only adds up their sizes.
class SharedLayout {
 public:
  explicit SharedLayout(std::byte* memory) : memory_(memory) {}

  template <class T>
  T* take(std::size_t count = 1) {
    std::byte* const part = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (count * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(part);
  }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* memory_;
  std::size_t bytes_ = 0;
};

}  // namespace xoe::engine
