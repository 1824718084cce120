#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/linear.h>

#include "core/base/error.h"
#include "train/networks/layers.h"
#include "train/networks/networks.h"

namespace xoe::models {
namespace {

constexpr std::int64_t kGrowth = 32;  // channels that a layer adds
constexpr std::int64_t kBottleneck = 4 * kGrowth;
constexpr std::array kDenseLayers = {6, 12, 24, 16};
constexpr int kSmallestDenseNetImage = 29;  // the last pooling has 2x2 pixels left

class DenseLayer : public nn::Module {
 public:
  explicit DenseLayer(std::int64_t in)
      : norm1_(register_module("norm1", BatchNorm(in))),
        conv1_(register_module("conv1", conv2d({.in = in, .out = kBottleneck, .kernel = {1, 1}}))),
        norm2_(register_module("norm2", BatchNorm(kBottleneck))),
        conv2_(register_module("conv2", conv2d({.in = kBottleneck, .out = kGrowth}))) {}

  // Its input, and its own channels behind.
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor narrow = conv1_->forward(kRelu(norm1_->forward(x)));
    return at::cat({x, conv2_->forward(kRelu(norm2_->forward(narrow)))}, 1);
  }

 private:
  BatchNorm norm1_;
  nn::Conv2d conv1_;
  BatchNorm norm2_;
  nn::Conv2d conv2_;
};

std::shared_ptr<Chain> dense_block(int layers, std::int64_t in) {
  auto block = std::make_shared<Chain>();
  for (int i = 0; i < layers; ++i)
    block->add("denselayer" + std::to_string(i + 1), std::make_shared<DenseLayer>(in + i * kGrowth));
  return block;
}

// Halves channels, height and width.
std::shared_ptr<Chain> transition(std::int64_t in) {
  auto chain = std::make_shared<Chain>();
  chain->add("norm", BatchNorm(in).ptr());
  chain->add_step(kRelu);
  chain->add("conv", conv2d({.in = in, .out = in / 2, .kernel = {1, 1}}).ptr());
  chain->add_step([](const at::Tensor& x) { return at::avg_pool2d(x, {2, 2}, {2, 2}); });
  return chain;
}

class DenseNet : public ImageModel {
 public:
  explicit DenseNet(int classes) {
    std::int64_t channels = 64;
    features_->add("conv0", conv2d({.in = 3, .out = channels, .kernel = {7, 7}, .stride = 2}).ptr());
    features_->add("norm0", BatchNorm(channels).ptr());
    features_->add_step(kRelu);
    features_->add_step([](const at::Tensor& x) { return at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1}); });
    for (std::size_t i = 0; i < kDenseLayers.size(); ++i) {
      const std::string number = std::to_string(i + 1);
      features_->add_block("denseblock" + number, dense_block(kDenseLayers[i], channels));
      channels += kDenseLayers[i] * kGrowth;
      if (i + 1 == kDenseLayers.size()) break;
      features_->add("transition" + number, transition(channels));
      channels /= 2;
    }
    features_->add("norm5", BatchNorm(channels).ptr());
    features_->add_step(kRelu);
    register_module("features", features_);
    classifier_ = register_module("classifier", nn::Linear(channels, classes));
    initialise_convolutions(*this, ::torch::kFanIn);
    nn::init::zeros_(classifier_->bias);
  }

  Logits forward(const at::Tensor& images) override {
    return {.main = classifier_->forward(mean_of_pixels(features_->forward(images)))};
  }

  std::vector<std::string> head() const override { return {"classifier"}; }

  // Before 2018: "denselayer1.norm.1.weight" for "denselayer1.norm1.weight".
  std::string current_name(const std::string& name) const override {
    const auto layer = name.find(".denselayer");
    if (layer == std::string::npos) return name;
    for (const std::string_view part : {".norm.", ".conv."})
      if (const auto at = name.find(part, layer); at != std::string::npos)
        return std::string(name).erase(at + part.size() - 1, 1);
    return name;
  }

  at::MemoryFormat memory_format() const override { return at::MemoryFormat::ChannelsLast; }

 private:
  std::shared_ptr<Chain> features_ = std::make_shared<Chain>();
  nn::Linear classifier_{nullptr};
};

}  // namespace

Result<ModelHandle> make_densenet121(const Shape& shape) {
  XOE_TRY(check_image_size("densenet121", shape, kSmallestDenseNetImage));
  return std::make_shared<DenseNet>(shape.classes);
}

}  // namespace xoe::models
