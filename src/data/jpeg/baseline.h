// Decodes a window of a baseline JPEG, an MCU row at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>

#include "data/image/planes.h"
#include "data/jpeg/colour_rows.h"
#include "data/jpeg/entropy.h"
#include "data/jpeg/frame.h"
#include "data/jpeg/scan_bytes.h"

namespace xoe::data::jpeg {

// Memory for vectors; grows, never shrinks.
template <class T>
class Buffer {
 public:
  // Zeros.
  T* take(std::size_t count) {
    const std::size_t bytes = (count * sizeof(T) + kLineBytes - 1) / kLineBytes * kLineBytes;
    if (bytes > bytes_) {
      memory_.reset(static_cast<T*>(::operator new(bytes, kLine)));
      bytes_ = bytes;
    }
    std::fill_n(memory_.get(), bytes / sizeof(T), T{});
    return memory_.get();
  }

 private:
  static constexpr std::size_t kLineBytes = 64;
  static constexpr std::align_val_t kLine{kLineBytes};
  struct Free {
    void operator()(T* memory) const { ::operator delete(memory, kLine); }
  };
  std::unique_ptr<T[], Free> memory_;
  std::size_t bytes_ = 0;
};

// Which samples a window of pixels needs.
struct Cut {
  std::array<PixelRect, 3> samples;  // of each plane, to be delivered
  // MCUs to be decoded.
  int left = 0;
  int right = 0;
  int top = 0;
  int bottom = 0;
};

// Smoothing chroma out needs one sample more on each side, where there is one; so does who resizes the planes as
// stored.
Cut cut_window(const PixelRect& window, Colour colour, int width, int height, int across, int down);

class BaselineDecoder {
 public:
  // False when the frame cannot be decoded to this colour here, or the scan is not perfectly sound from outside.
  // `jpeg` and `frame` must stay until decode() has returned.
  bool open(std::string_view jpeg, const Frame& frame, Colour colour);

  // Pushes the rows of the cut. False when the bits turn out to be doubtful; next_row() tells how far each plane came.
  bool decode(const Cut& cut, RowSink& sink);
  int next_row(std::size_t plane) const { return next_[plane]; }

 private:
  // The samples of two MCU rows of a plane: a ring of rows.
  struct Strip {
    Buffer<std::int16_t> coefficient_memory;
    Buffer<std::uint8_t> sample_memory;
    std::array<std::int16_t*, 2> coefficients = {};  // of each row of blocks in an MCU
    std::uint8_t* samples = nullptr;
    std::size_t stride = 0;
    std::size_t blocks = 0;  // in a row
    int x = 0;               // of the first sample
    int ring = 0;            // rows

    std::uint8_t* row(int y) const { return samples + stride * static_cast<std::size_t>(y % ring); }
  };

  void prepare(const Cut& cut);
  bool decode_mcu_row(int row);
  void transform(int row);
  void extend_chroma(int row);
  void push_planes(int row, RowSink& sink);
  void push_rgb(int end, RowSink& sink);

  const Frame* frame_ = nullptr;
  Colour colour_ = Colour::kRgb;
  Cut cut_;
  ScanBytes scan_;
  TableCache<DcTable> dc_tables_;
  TableCache<AcTable> ac_tables_;
  McuPlan plan_;
  EntropyState state_;
  std::size_t stretch_ = 0;    // between restart markers, in which the state is
  std::size_t mcus_left_ = 0;  // of it
  std::array<Strip, 3> strip_;
  std::array<int, 3> next_ = {};
  Buffer<std::uint8_t> rgb_memory_;
  std::array<std::uint8_t*, 3> rgb_ = {};
};

}  // namespace xoe::data::jpeg
