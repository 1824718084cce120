// One image file to a network's input: what a pipeline of one's own calls in map() or map_and_batch().
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

struct ImageMaking {
  int size = 224;          // height and width of what is made
  bool training = true;    // cropped and flipped at random; else the centre
  double min_area = 0.08;  // share of the image that a random crop covers at least
  Quality quality = Quality::kExact;
  DType dtype = DType::kFloat32;  // or kFloat16, kBfloat16; kUint8 is not normalised
  Layout layout = Layout::kNchw;
  std::array<float, 3> mean = {0.485F, 0.456F, 0.406F};  // of ImageNet, for values within [0, 1]
  std::array<float, 3> deviation = {0.229F, 0.224F, 0.225F};
  Augmentation augmentation = {};  // training only; without its `mixing`, which is for batches
};

// Keeps its memory from image to image: one for each thread. One thread at a time.
class ImageMaker {
 public:
  ImageMaker();
  ImageMaker(ImageMaker&&) noexcept;
  ImageMaker& operator=(ImageMaker&&) noexcept;
  ~ImageMaker();

  // Writes 3 x size x size elements. `key` decides about everything random: equal keys, equal pixels. `data_loss`: the
  // file is broken or of another format; `invalid_argument`: a field out of its range, by name.
  Status make(const ImageMaking& making, std::string_view file, std::uint64_t key, void* pixels);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace xoe::data
