// A decoded image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace xoe::data {

// Interleaved 8-bit RGB, row by row without gaps. Keeps its memory when it shrinks.
class Image {
 public:
  void resize(int width, int height) {
    const std::size_t wanted = std::size_t{3} * static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
    if (wanted > capacity_) {
      pixels_.reset(new std::uint8_t[wanted]);
      capacity_ = wanted;
    }
    width_ = width;
    height_ = height;
  }

  int width() const noexcept { return width_; }
  int height() const noexcept { return height_; }
  std::uint8_t* row(int y) noexcept { return pixels_.get() + stride() * static_cast<std::size_t>(y); }
  const std::uint8_t* row(int y) const noexcept { return pixels_.get() + stride() * static_cast<std::size_t>(y); }
  std::size_t bytes() const noexcept { return stride() * static_cast<std::size_t>(height_); }
  std::size_t stride() const noexcept { return std::size_t{3} * static_cast<std::size_t>(width_); }

 private:
  std::unique_ptr<std::uint8_t[]> pixels_;
  std::size_t capacity_ = 0;
  int width_ = 0;
  int height_ = 0;
};

}  // namespace xoe::data
