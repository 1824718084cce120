// Changes normalised images and their labels.
#pragma once

#include <cstddef>
#include <vector>

#include "data/image/augment/plan.h"
#include "data/image/resizer.h"

namespace xoe::data {

// Float images, one behind the other in memory that it does not own.
struct FloatImages {
  float* data = nullptr;
  int count = 1;
  int channels = 3;
  int height = 0;
  int width = 0;
  Layout layout = Layout::kNchw;

  std::size_t elements() const noexcept {  // of one image
    return static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  }
};

// For each image the share of each class: count x classes.
struct SoftLabels {
  float* data = nullptr;
  int classes = 0;
};

// Erases a rectangle of a single image.
void apply(const ErasingPlan& plan, const FloatImages& image);

// Mixes image i and its labels with those of image i - 1, the first with the last. `scratch` keeps its memory.
void apply(const MixingPlan& plan, const FloatImages& images, const SoftLabels& labels, std::vector<float>& scratch);

}  // namespace xoe::data
