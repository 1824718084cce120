// Turns one image file into a network's input; a pipeline of one's own calls it in map() or map_and_batch().
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "xoe/data/augment.h"
#include "xoe/data/pixels.h"
#include "xoe/status.h"
#include "xoe/tensor.h"

namespace xoe::data {

struct ImageTransform {
  ImageSize size = 224;    // of the result
  bool training = true;    // random crop and flip; else the centre crop
  bool whole = false;      // the whole image in either case
  bool flip = true;        // mirrored with probability 1/2; training only
  double min_area = 0.08;  // least share of the image that a random crop covers
  PixelOptions pixels = {};
  Quality quality = Quality::kExact;
  DType dtype = DType::kFloat32;  // or kFloat16, kBfloat16; kUint8 is not normalised
  Layout layout = Layout::kNchw;
  std::array<float, 3> mean = {0.485F, 0.456F, 0.406F};  // of ImageNet, for values within [0, 1]
  std::array<float, 3> deviation = {0.229F, 0.224F, 0.225F};
  Augmentation augmentation = {};  // training only; without its `mixing`, which is for batches
};

// Decodes, crops, resizes, augments and normalises. Keeps its memory from image to image: one for each thread, used by
// one thread at a time.
class ImageTransformer {
 public:
  ImageTransformer();
  ImageTransformer(ImageTransformer&&) noexcept;
  ImageTransformer& operator=(ImageTransformer&&) noexcept;
  ~ImageTransformer();

  // Writes 3 x height x width elements of a JPEG or PNG file to `pixels`. `key` decides everything random: equal keys,
  // equal pixels. `data_loss`: the file is broken or of another format; `resource_exhausted`: more than max_pixels;
  // `invalid_argument`: a field out of its range, by name.
  Status run(const ImageTransform& transform, std::string_view file, std::uint64_t key, void* pixels);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace xoe::data
