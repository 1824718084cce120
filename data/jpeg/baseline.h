// Decodes a window of a baseline JPEG, one row of MCUs at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "data/image/aligned.h"
#include "data/image/planes.h"
#include "data/jpeg/colour_rows.h"
#include "data/jpeg/entropy.h"
#include "data/jpeg/frame.h"
#include "data/jpeg/scan_bytes.h"

namespace xoe::data::jpeg {

// The samples and MCUs that a window of pixels needs.
struct DecodeArea {
  std::array<PixelRect, 3> samples;  // of each plane, that are delivered
  // MCUs that are decoded:
  int left = 0;
  int right = 0;
  int top = 0;
  int bottom = 0;
};

// Upsampling chroma needs one sample more on each side, where there is one; so does resizing the planes as stored.
DecodeArea area_of(const PixelRect& window, Colour colour, int width, int height, int across, int down);

class BaselineDecoder {
 public:
  // False when this decoder cannot decode the frame to this colour, or the markers of the scan are not perfectly sound.
  // `jpeg` and `frame` must stay valid until decode() has returned.
  bool open(std::string_view jpeg, const Frame& frame, Colour colour);

  // Pushes the rows of the area. False when the bits are not as sound encoders write them; next_row() then is the first
  // row of each plane that was not pushed.
  bool decode(const DecodeArea& area, RowSink& sink);
  int next_row(std::size_t plane) const { return next_[plane]; }

 private:
  // A ring of rows with the samples of two MCU rows of a plane.
  struct Strip {
    AlignedArray<std::int16_t> coefficient_memory;
    AlignedArray<std::uint8_t> sample_memory;
    std::array<std::int16_t*, 2> coefficients = {};  // of each row of blocks in an MCU
    std::uint8_t* samples = nullptr;
    std::size_t stride = 0;
    std::size_t blocks = 0;  // in a row
    int x = 0;               // of the first sample
    int ring = 0;            // rows

    std::uint8_t* row(int y) const { return samples + stride * static_cast<std::size_t>(y % ring); }
  };

  void prepare(const DecodeArea& area);
  bool decode_mcu_row(int row);
  void transform(int row);
  void extend_chroma(int row);
  void push_planes(int row, RowSink& sink);
  void push_rgb(int end, RowSink& sink);

  const Frame* frame_ = nullptr;
  Colour colour_ = Colour::kRgb;
  DecodeArea area_;
  ScanBytes scan_;
  TableCache<DcTable> dc_tables_;
  TableCache<AcTable> ac_tables_;
  McuPlan plan_;
  EntropyState state_;
  std::size_t interval_ = 0;   // the restart interval that state_ is in
  std::size_t mcus_left_ = 0;  // of that interval
  std::array<Strip, 3> strip_;
  std::array<int, 3> next_ = {};
  AlignedArray<std::uint8_t> rgb_memory_;
  std::array<std::uint8_t*, 3> rgb_ = {};
};

}  // namespace xoe::data::jpeg
