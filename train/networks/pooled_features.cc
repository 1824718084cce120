#include "train/networks/pooled_features.h"

#include <torch/nn/modules/dropout.h>

namespace xoe::models {

Logits PooledFeatures::forward(const at::Tensor& images) {
  return {.main = classifier_->forward(mean_of_pixels(features_->forward(images)))};
}

nn::Linear PooledFeatures::add_classifier(std::int64_t features, int classes, double dropout) {
  register_module("features", features_);
  const nn::Linear linear(features, classes);
  classifier_->add(nn::Dropout(dropout));
  classifier_->add(linear);
  register_module("classifier", classifier_);
  initialise_convolutions(*this);
  return linear;
}

}  // namespace xoe::models
