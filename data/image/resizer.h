// Turns the rows that a decoder delivers into a network's input: crop, resize, flip, normalisation and layout in one
// pass, written straight to the target.
#pragma once

#include <array>
#include <vector>

#include "data/image/aligned.h"
#include "data/image/crop.h"
#include "data/image/kernels.h"
#include "data/image/planes.h"
#include "xoe/data/pixels.h"
#include "xoe/tensor.h"

namespace xoe::data {

// Memory and format of one image: channels x height x width elements. Floats are (level / 255 - mean) / deviation;
// uint8 is the level, rounded. Memory whose address and rows are multiples of 64 bytes is written fastest.
struct Target {
  void* to = nullptr;
  DType dtype = DType::kFloat32;  // or kFloat16, kBfloat16, kUint8
  Layout layout = Layout::kNchw;
  int width = 0;
  int height = 0;
  int channels = 3;   // or 1: brightness. Grey becomes three equal colours when three are wanted
  bool flip = false;  // left to right
  std::array<float, 3> mean = {kMean[0], kMean[1], kMean[2]};
  std::array<float, 3> deviation = {kDeviation[0], kDeviation[1], kDeviation[2]};
};

// Grey and RGB planes are resized as the crop's Resampling says, columns before rows, within 0.01 of a grey level
// before rounding (0.1 with a filter of many taps). Levels are clamped to 0 to 255 after either step. YCC planes are
// resized one by one, each with its own sampling, and only the result is converted to RGB: less work, and colours that
// differ a little from those of a decoder that converts the whole image first. At the crop's border chroma is
// interpolated with the samples outside of it: the window of a subsampled plane must include one sample more on each
// side of needed_pixels(crop), where the image has them.
//
// The pixels are the same on every processor. Keeps its memory from image to image. One thread at a time.
class Resizer final : public RowSink {
 public:
  static bool supports(DType dtype) noexcept;

  // Must be called before a decoder calls start(). REQUIRES: sizes of at least 1, supports(target.dtype), channels 1
  // or 3.
  void prepare(const Crop& crop, const Target& target);

  void start(const PlaneLayout& layout, const std::array<PixelRect, 3>& window) override;
  void row(int plane, int y, const std::uint8_t* samples) override;

  // Whether every row of the target is written, as after a decoder that succeeded.
  bool complete() const noexcept { return next_ == target_.height; }

 private:
  // How a plane's samples map to the target.
  struct Geometry {
    ColumnTaps columns;
    RowPlan rows;
  };
  struct Plane {
    const Geometry* geometry = nullptr;
    FloatRows ring;         // of resampled rows; row i of the plan is at i modulo its size
    std::size_t taken = 0;  // rows of the plan so far
    int ready = 0;          // rows of the target that can be written
  };

  int used_planes(Colour colour) const noexcept;
  void make_geometry(int plane, const PixelRect& window);
  void make_columns_of(int plane, const PixelRect& window);
  void make_rows_of(int plane, const PixelRect& window);
  bool overshoots() const noexcept { return crop_.resampling.interpolation == Interpolation::kBicubic; }
  void make_room(Plane& plane);
  RowPairs find_rows(std::size_t count, const std::array<float, 3>& scale);
  void add_up(const Plane& plane, const RowTaps& taps, float* to);
  void write_row();
  void fill_rows(const std::array<float*, 3>& row, bool past_cache);
  template <class Convert>
  void store_converted(std::uint8_t* to, const Convert& convert);
  bool by_channel() const noexcept { return target_.layout == Layout::kNchw || target_.channels == 1; }

  Crop crop_;
  Target target_;
  PlaneLayout layout_;
  int planes_ = 0;  // that are used
  int next_ = 0;    // row of the target
  std::size_t stride_ = 0;
  Normalisation to_network_;
  std::array<Geometry, 3> geometries_;
  std::array<Plane, 3> sources_;
  bool past_cache_ = false;  // write straight to memory
  std::size_t row_bytes_ = 0;
  FloatRows finished_;                    // one row for each channel, where the target is not such rows of floats
  AlignedArray<std::uint8_t> converted_;  // a row in the target's type
  FilterTaps filter_;
  std::vector<const float*> summands_;
  FloatRows sums_;  // of each plane: all rows of the target's next one but the last
};

}  // namespace xoe::data
