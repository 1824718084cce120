// Recipes of random changes to training images, named and defined as in torchvision. The changes of an image are a
// pure function of (seed, epoch, record), those of a batch of (seed, rank, epoch, batch).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace xoe::data {

// Brightness, contrast, saturation and hue in random order. Factors are drawn from [max(0, 1 - x), 1 + x], hue from
// [-hue, hue] of a turn; 0 leaves one out.
struct ColourJitter {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;  // at most 0.5
};

// Cubuk et al. 2019, "RandAugment": `operations` times one of 14 changes, each as strong as `magnitude` of `bins` says.
struct RandAugment {
  int operations = 2;
  int magnitude = 9;  // below bins
  int bins = 31;      // at least 2
};

// Zhong et al. 2017, "Random Erasing Data Augmentation": a rectangle of the normalised image is overwritten.
struct RandomErasing {
  double probability = 0.5;
  std::array<double, 2> area = {0.02, 0.33};  // share of the image
  std::array<double, 2> ratio = {0.3, 3.3};   // of height to width
  bool noise = false;                         // normally distributed values, else
  float value = 0;
};

// Zhang et al. 2017, "mixup": each image of a batch is mixed with the one before it, and so are the labels.
// Yun et al. 2019, "CutMix": a rectangle of the one before it is pasted into each image.
struct BatchMixing {
  double mixup_alpha = 0;   // of the Beta distribution that shares are drawn from; 0: never
  double cutmix_alpha = 0;  // with both, each batch gets one of them, by
  double cutmix_probability = 0.5;
};

// The changes after random crop and flip, in this order.
struct Augmentation {
  std::optional<ColourJitter> colour_jitter = {};
  std::optional<RandAugment> rand_augment = {};
  std::optional<RandomErasing> erasing = {};
  BatchMixing mixing = {};
};

}  // namespace xoe::data
