// A small network that finds lesions in phantoms (`xoe data make-xray`).
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

#include "train/networks/models.h"

namespace chexnet {

// Filters, of which each of 4 by 4 regions keeps the logarithm of the mean exponential, as the ideal observer does; so
// this network can come close to it. prior: how likely each pixel of a region is the place of a lesion. Each label
// weighs the regions, and the filters, for itself.
class Detector : public xoe::models::ImageModel {
 public:
  // image_size: a multiple of 32.
  Detector(int labels, int image_size);

  xoe::models::Logits forward(const at::Tensor& images) override;
  std::vector<std::string> head() const override { return {}; }  // each label has parameters of its own throughout

 private:
  torch::nn::Conv2d filter_;
  at::Tensor prior_;    // [filters, 1, side, 1, side]
  at::Tensor region_;   // [labels, 16]
  at::Tensor channel_;  // [labels, filters]
  at::Tensor bias_;     // [labels]
};

}  // namespace chexnet
