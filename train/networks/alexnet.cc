#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "core/base/error.h"
#include "train/networks/layers.h"
#include "train/networks/networks.h"

namespace xoe::models {
namespace {

constexpr int kSmallestAlexNetImage = 63;  // leaves one pixel behind the last pooling
constexpr std::int64_t kAlexNetHidden = 4096;

at::Tensor pool_3x3(const at::Tensor& x) { return at::max_pool2d(x, {3, 3}, {2, 2}); }

class AlexNet : public ImageModel {
 public:
  explicit AlexNet(int classes) {
    features_->add(nn::Conv2d(nn::Conv2dOptions(3, 64, 11).stride(4).padding(2)));
    features_->add_step(kRelu);
    features_->add_step(pool_3x3);
    features_->add(conv2d({.in = 64, .out = 192, .kernel = {5, 5}, .bias = true}));
    features_->add_step(kRelu);
    features_->add_step(pool_3x3);
    std::int64_t channels = 192;
    for (const std::int64_t out : {384, 256, 256}) {
      features_->add(conv2d({.in = channels, .out = out, .bias = true}));
      features_->add_step(kRelu);
      channels = out;
    }
    features_->add_step(pool_3x3);
    register_module("features", features_);
    for (const std::int64_t in : {channels * 6 * 6, kAlexNetHidden}) {
      classifier_->add(nn::Dropout(0.5));
      classifier_->add(nn::Linear(in, kAlexNetHidden));
      classifier_->add_step(kRelu);
    }
    classifier_->add(nn::Linear(kAlexNetHidden, classes));
    register_module("classifier", classifier_);
  }

  Logits forward(const at::Tensor& images) override {
    return {.main = classifier_->forward(at::adaptive_avg_pool2d(features_->forward(images), {6, 6}).flatten(1))};
  }

  std::vector<std::string> head() const override { return {"classifier.6"}; }

 private:
  std::shared_ptr<Chain> features_ = std::make_shared<Chain>();
  std::shared_ptr<Chain> classifier_ = std::make_shared<Chain>();
};

}  // namespace

Result<ModelHandle> make_alexnet(const Shape& shape) {
  XOE_TRY(check_image_size("alexnet", shape, kSmallestAlexNetImage));
  return std::make_shared<AlexNet>(shape.classes);
}

}  // namespace xoe::models
