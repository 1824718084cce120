#include <torch/nn/modules/linear.h>

#include "train/networks/networks.h"

namespace xoe::models {
namespace {

class Mlp : public ImageModel {
 public:
  explicit Mlp(const Shape& shape)
      : fc1_(register_module("fc1", ::torch::nn::Linear(3 * std::int64_t{shape.height} * shape.width, 512))),
        fc2_(register_module("fc2", ::torch::nn::Linear(512, 256))),
        fc3_(register_module("fc3", ::torch::nn::Linear(256, shape.classes))) {}

  Logits forward(const at::Tensor& images) override {
    const at::Tensor hidden = fc1_->forward(images.flatten(1)).relu_();
    return {.main = fc3_->forward(fc2_->forward(hidden).relu_())};
  }

  std::vector<std::string> head() const override { return {"fc3"}; }

 private:
  ::torch::nn::Linear fc1_;
  ::torch::nn::Linear fc2_;
  ::torch::nn::Linear fc3_;
};

}  // namespace

Result<ModelHandle> make_mlp(const Shape& shape) { return std::make_shared<Mlp>(shape); }

}  // namespace xoe::models
