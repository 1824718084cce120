#include <torch/nn/modules/linear.h>

#include "models/networks.h"

namespace xoe::models {
namespace {

class Mlp : public ImageModel {
 public:
  Mlp(int classes, int height, int width)
      : fc1_(register_module("fc1", ::torch::nn::Linear(3 * std::int64_t{height} * width, 512))),
        fc2_(register_module("fc2", ::torch::nn::Linear(512, 256))),
        fc3_(register_module("fc3", ::torch::nn::Linear(256, classes))) {}

  at::Tensor forward(const at::Tensor& images) override {
    const at::Tensor hidden = fc1_->forward(images.flatten(1)).relu_();
    return fc3_->forward(fc2_->forward(hidden).relu_());
  }

 private:
  ::torch::nn::Linear fc1_;
  ::torch::nn::Linear fc2_;
  ::torch::nn::Linear fc3_;
};

}  // namespace

ModelHandle make_mlp(int classes, int height, int width) { return std::make_shared<Mlp>(classes, height, width); }

}  // namespace xoe::models
