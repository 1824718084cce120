// The small ResNets for CIFAR's images of 32x32 (K. He et al., 2015, section 4.2).
#include <ATen/ops/constant_pad_nd.h>
#include <torch/nn/modules/linear.h>

#include <optional>

#include "train/networks/layers.h"
#include "train/networks/networks.h"

namespace xoe::models {
namespace {

constexpr std::int64_t kCifarFirst = 16;  // channels; each further stage has twice as many
constexpr int kCifarStages = 3;

// Every second pixel, and channels of zeros before and behind the others: a shortcut without parameters (option A).
at::Tensor narrowed(const at::Tensor& x, std::int64_t channels) {
  const at::Tensor pixels = x.slice(2, 0, std::nullopt, 2).slice(3, 0, std::nullopt, 2);
  const std::int64_t zeros = (channels - x.size(1)) / 2;
  return at::constant_pad_nd(pixels, {0, 0, 0, 0, zeros, zeros});
}

// Two 3x3 convolutions.
class CifarBlock : public nn::Module {
 public:
  CifarBlock(std::int64_t in, std::int64_t out)
      : out_(out),
        narrows_(in != out),
        conv1_(register_module("conv1", conv2d({.in = in, .out = out, .stride = narrows_ ? 2 : 1}))),
        bn1_(register_module("bn1", BatchNorm(out))),
        conv2_(register_module("conv2", conv2d({.in = out, .out = out}))),
        bn2_(register_module("bn2", BatchNorm(out))) {}

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = kRelu(bn1_->forward(conv1_->forward(input)));
    x = bn2_->forward(conv2_->forward(x));
    x += narrows_ ? narrowed(input, out_) : input;
    return x.relu_();
  }

 private:
  std::int64_t out_;
  bool narrows_;
  nn::Conv2d conv1_;
  BatchNorm bn1_;
  nn::Conv2d conv2_;
  BatchNorm bn2_;
};

class CifarResNet : public ImageModel {
 public:
  // layers: 6 blocks + 2, of convolutions and the linear one.
  CifarResNet(int layers, int classes) {
    conv1_ = register_module("conv1", conv2d({.in = 3, .out = kCifarFirst}));
    bn1_ = register_module("bn1", BatchNorm(kCifarFirst));
    std::int64_t channels = kCifarFirst;
    for (int i = 0; i < kCifarStages; ++i) {
      auto stage = std::make_shared<Chain>();
      for (int k = 0; k < (layers - 2) / 6; ++k) {
        const std::int64_t out = kCifarFirst << i;
        stage->add_block(std::make_shared<CifarBlock>(channels, out));
        channels = out;
      }
      stages_.push_back(register_module("layer" + std::to_string(i + 1), std::move(stage)));
    }
    fc_ = register_module("fc", nn::Linear(channels, classes));
    initialise_convolutions(*this);
  }

  Logits forward(const at::Tensor& images) override {
    at::Tensor x = kRelu(bn1_->forward(conv1_->forward(images)));
    for (const auto& stage : stages_) x = stage->forward(x);
    return {.main = fc_->forward(mean_of_pixels(x))};
  }

  std::vector<std::string> head() const override { return {"fc"}; }

 private:
  nn::Conv2d conv1_{nullptr};
  BatchNorm bn1_{nullptr};
  std::vector<std::shared_ptr<Chain>> stages_;
  nn::Linear fc_{nullptr};
};

}  // namespace

Result<ModelHandle> make_resnet20(const Shape& shape) { return std::make_shared<CifarResNet>(20, shape.classes); }
Result<ModelHandle> make_resnet32(const Shape& shape) { return std::make_shared<CifarResNet>(32, shape.classes); }
Result<ModelHandle> make_resnet44(const Shape& shape) { return std::make_shared<CifarResNet>(44, shape.classes); }
Result<ModelHandle> make_resnet56(const Shape& shape) { return std::make_shared<CifarResNet>(56, shape.classes); }
Result<ModelHandle> make_resnet110(const Shape& shape) { return std::make_shared<CifarResNet>(110, shape.classes); }

}  // namespace xoe::models
