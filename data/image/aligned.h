// Memory for vector code. It starts at a multiple of 64 bytes, so that no load of a whole vector crosses a cache line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>

namespace xoe::data {

// Keeps its memory when it shrinks.
template <class T>
class AlignedArray {
 public:
  // Does not keep the contents; elements that were never written are zero.
  void resize(std::size_t size) {
    if (size > capacity_) {
      memory_.reset(static_cast<T*>(::operator new(size * sizeof(T), kAlignment)));
      capacity_ = size;
      std::fill_n(memory_.get(), capacity_, T{});
    }
    size_ = size;
  }
  // Resizes, and sets all to zero.
  T* zeros(std::size_t size) {
    resize(size);
    return std::fill_n(memory_.get(), size, T{}) - size;
  }

  std::size_t size() const noexcept { return size_; }
  T* data() noexcept { return memory_.get(); }
  const T* data() const noexcept { return memory_.get(); }
  T& operator[](std::size_t i) noexcept { return memory_.get()[i]; }
  const T& operator[](std::size_t i) const noexcept { return memory_.get()[i]; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(T* memory) const noexcept { ::operator delete(memory, kAlignment); }
  };
  std::unique_ptr<T[], Free> memory_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
};

// Rows of one length, which is a multiple of 16.
class FloatRows {
 public:
  void resize(std::size_t rows, std::size_t stride) {
    floats_.resize(rows * stride);
    rows_ = rows;
    stride_ = stride;
  }

  std::size_t rows() const noexcept { return rows_; }
  float* row(std::size_t i) noexcept { return floats_.data() + i * stride_; }
  const float* row(std::size_t i) const noexcept { return floats_.data() + i * stride_; }

 private:
  AlignedArray<float> floats_;
  std::size_t rows_ = 0;
  std::size_t stride_ = 0;
};

}  // namespace xoe::data
