#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "core/base/error.h"
#include "train/networks/layers.h"
#include "train/networks/networks.h"

namespace xoe::models {
namespace {

// Convolutions before each of five poolings.
using VggStages = std::array<int, 5>;
constexpr VggStages kVgg11 = {1, 1, 2, 2, 2};
constexpr VggStages kVgg13 = {2, 2, 2, 2, 2};
constexpr VggStages kVgg16 = {2, 2, 3, 3, 3};
constexpr VggStages kVgg19 = {2, 2, 4, 4, 4};
constexpr std::array<std::int64_t, 5> kVggWidths = {64, 128, 256, 512, 512};
constexpr int kSmallestVggImage = 32;  // each pooling halves it
constexpr std::int64_t kVggHidden = 4096;
constexpr double kVggLinearSpread = 0.01;

class Vgg : public ImageModel {
 public:
  Vgg(const VggStages& stages, int classes) {
    std::int64_t channels = 3;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      for (int k = 0; k < stages[i]; ++k) {
        features_->add(conv2d({.in = channels, .out = kVggWidths[i], .bias = true}));
        features_->add_step(kRelu);
        channels = kVggWidths[i];
      }
      features_->add_step([](const at::Tensor& x) { return at::max_pool2d(x, {2, 2}, {2, 2}); });
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

Result<ModelHandle> make_vgg(std::string_view name, const VggStages& stages, const Shape& shape) {
  XOE_TRY(check_image_size(name, shape, kSmallestVggImage));
  return std::make_shared<Vgg>(stages, shape.classes);
}

}  // namespace

Result<ModelHandle> make_vgg11(const Shape& shape) { return make_vgg("vgg11", kVgg11, shape); }
Result<ModelHandle> make_vgg13(const Shape& shape) { return make_vgg("vgg13", kVgg13, shape); }
Result<ModelHandle> make_vgg16(const Shape& shape) { return make_vgg("vgg16", kVgg16, shape); }
Result<ModelHandle> make_vgg19(const Shape& shape) { return make_vgg("vgg19", kVgg19, shape); }

}  // namespace xoe::models
