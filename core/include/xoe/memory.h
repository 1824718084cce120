// Memory that all ranks of a host map.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace xoe {

// Memory from Communicator::shared_buffer(). The peers reduce it in place, without a copy. It is zero at first and
// aligned to 4096 bytes. The destructor frees it, which is safe at any time except while a collective that uses it is
// pending. Movable, not copyable. It may outlive its communicator. Any thread may use or destroy it.
class SharedBuffer {
 public:
  SharedBuffer() = default;
  SharedBuffer(std::shared_ptr<void> owner, std::byte* data, std::size_t bytes)
      : owner_(std::move(owner)), data_(data), bytes_(bytes) {}
  SharedBuffer(SharedBuffer&& other) noexcept { swap(other); }
  SharedBuffer& operator=(SharedBuffer other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  template <class T>
  std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(data_), bytes_ / sizeof(T)};
  }

 private:
  void swap(SharedBuffer& other) noexcept {
    std::swap(owner_, other.owner_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  std::shared_ptr<void> owner_;  // its deleter returns the block to the arena
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace xoe
