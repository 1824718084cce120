// Convolutions whose features are averaged over all pixels, and classified by one linear layer.
#pragma once

#include <torch/nn/modules/linear.h>

#include "train/networks/image_model.h"
#include "train/networks/layers.h"

namespace xoe::models {

class PooledFeatures : public ImageModel {
 public:
  Logits forward(const at::Tensor& images) override;
  std::vector<std::string> head() const override { return {"classifier.1"}; }
  at::MemoryFormat memory_format() const override { return at::MemoryFormat::ChannelsLast; }

 protected:
  // Once features_ is complete; gives convolutions their initial values. The linear layer waits for its own.
  nn::Linear add_classifier(std::int64_t features, int classes, double dropout);

  std::shared_ptr<Chain> features_ = std::make_shared<Chain>();

 private:
  std::shared_ptr<Chain> classifier_ = std::make_shared<Chain>();
};

}  // namespace xoe::models
