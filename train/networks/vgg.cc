#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "core/base/error.h"
#include "train/networks/layers.h"
#include "train/networks/networks.h"

namespace xoe::models {
namespace {

constexpr std::int64_t kPool = 0;  // in place of a convolution's channels
constexpr std::array<std::int64_t, 18> kVgg16 = {64,    64,  kPool, 128, 128,   kPool, 256, 256, 256,
                                                 kPool, 512, 512,   512, kPool, 512,   512, 512, kPool};
constexpr int kSmallestVggImage = 32;  // each of five poolings halves it
constexpr std::int64_t kVggHidden = 4096;
constexpr double kVggLinearSpread = 0.01;

class Vgg : public ImageModel {
 public:
  explicit Vgg(int classes) {
    std::int64_t channels = 3;
    for (const std::int64_t out : kVgg16) {
      if (out == kPool) {
        features_->add_step([](const at::Tensor& x) { return at::max_pool2d(x, {2, 2}, {2, 2}); });
        continue;
      }
      features_->add(conv2d({.in = channels, .out = out, .bias = true}));
      features_->add_step(kRelu);
      channels = out;
    }
    register_module("features", features_);
    for (const std::int64_t in : {channels * 7 * 7, kVggHidden}) {
      classifier_->add(nn::Linear(in, kVggHidden));
      classifier_->add_step(kRelu);
      classifier_->add(nn::Dropout(0.5));
    }
    classifier_->add(nn::Linear(kVggHidden, classes));
    register_module("classifier", classifier_);
    initialise_convolutions(*this);
    for (const auto& module : classifier_->children()) {
      if (auto* const linear = module->as<nn::Linear>()) {
        nn::init::normal_(linear->weight, 0, kVggLinearSpread);
        nn::init::zeros_(linear->bias);
      }
    }
  }

  Logits forward(const at::Tensor& images) override {
    return {.main = classifier_->forward(at::adaptive_avg_pool2d(features_->forward(images), {7, 7}).flatten(1))};
  }

  std::vector<std::string> head() const override { return {"classifier.6"}; }

 private:
  std::shared_ptr<Chain> features_ = std::make_shared<Chain>();
  std::shared_ptr<Chain> classifier_ = std::make_shared<Chain>();
};

}  // namespace

Result<ModelHandle> make_vgg16(const Shape& shape) {
  XOE_TRY(check_image_size("vgg16", shape, kSmallestVggImage));
  return std::make_shared<Vgg>(shape.classes);
}

}  // namespace xoe::models
