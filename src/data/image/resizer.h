// Makes a network's input of the rows that a decoder delivers: crop, bilinear resize, flip, normalisation and layout in
// one pass, written where the result shall be.
#pragma once

#include <array>

#include "data/image/aligned.h"
#include "data/image/crop.h"
#include "data/image/kernels.h"
#include "data/image/planes.h"
#include "xoe/data/pixels.h"
#include "xoe/tensor.h"

namespace xoe::data {

// Where one image goes and as what: channels x height x width elements. Floats are (level / 255 - mean) / deviation;
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

// Grey and RGB planes become what bilinear interpolation between pixel centres gives, without smoothing when it
// shrinks, within 0.01 of a grey level before rounding. YCC planes are resized one by one, each with its own sampling,
// and only the result becomes RGB: less work, and the colours of neighbouring pixels differ a little from a decoder
// that first makes RGB of the whole image. At the crop's border chroma is interpolated with the samples outside, as
// anywhere: of planes with fewer samples, a window must include the one before and the one behind those over
// needed_pixels(crop), where the image has them.
//
// The same pixels on every processor. Keeps its memory from image to image. One thread at a time.
class Resizer final : public RowSink {
 public:
  static bool supports(DType dtype) noexcept;

  // Before a decoder's start(). REQUIRES: sizes of at least 1, supports(target.dtype), channels 1 or 3.
  void prepare(const Crop& crop, const Target& target);

  void start(const PlaneLayout& layout, const std::array<PixelRect, 3>& window) override;
  void row(int plane, int y, const std::uint8_t* samples) override;

  // Whether every row of the target is written. A decoder that ended well has delivered all that is needed.
  bool complete() const noexcept { return next_ == target_.height; }

 private:
  // How a plane's samples lie under the target.
  struct Geometry {
    ColumnTaps columns;
    RowPlan rows;
  };
  struct Plane {
    const Geometry* geometry = nullptr;
    FloatRows ring;         // of stretched rows; row i of the plan is at i modulo its size
    std::size_t taken = 0;  // rows of the plan so far
    int ready = 0;          // rows of the target that these suffice for
  };

  int used_planes(Colour colour) const noexcept;
  void make_geometry(int plane, const PixelRect& window);
  void make_room(Plane& plane);
  RowPairs find_rows(std::size_t count, const std::array<float, 3>& scale) const noexcept;
  void write_row();
  void fill_rows(const std::array<float*, 3>& row, bool past_cache);
  template <class Convert>
  void store_converted(std::uint8_t* to, const Convert& convert);
  bool by_channel() const noexcept { return target_.layout == Layout::kNchw || target_.channels == 1; }

  Crop crop_;
  Target target_;
  PlaneLayout layout_;
  int planes_ = 0;  // that matter
  int next_ = 0;    // row of the target
  std::size_t stride_ = 0;
  Normalisation to_network_;
  std::array<Geometry, 3> geometries_;
  std::array<Plane, 3> sources_;
  bool past_cache_ = false;  // write straight to memory
  std::size_t row_bytes_ = 0;
  FloatRows finished_;                    // one row for each channel, for what is not stored as it is
  AlignedArray<std::uint8_t> converted_;  // such a row in the target's type
};

}  // namespace xoe::data
