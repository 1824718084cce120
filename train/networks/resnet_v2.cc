// ResNets whose blocks begin with batch norm and ReLU, and whose shortcuts nothing disturbs.
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/linear.h>

#include "train/networks/layers.h"
#include "train/networks/networks.h"

namespace xoe::models {
namespace {

constexpr std::int64_t kPreActivationFirst = 64;  // channels
constexpr std::int64_t kExpansion = 4;            // of a block's output over those in its middle

nn::Conv2d preactivation_conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1) {
  return conv2d({.in = in, .out = out, .kernel = {kernel, kernel}, .stride = stride});
}

struct BlockShape {
  std::int64_t in;
  std::int64_t width;
  std::int64_t stride;
  bool first;  // of the network: its input has had batch norm and ReLU
  std::int64_t out() const { return kExpansion * width; }
};

// 1x1-3x3-1x1, each convolution behind batch norm and ReLU. Where shapes change, the shortcut is a 1x1 convolution of
// what the first of them gave.
class PreActivation : public nn::Module {
 public:
  explicit PreActivation(const BlockShape& shape) {
    if (!shape.first) norm1_ = register_module("bn1", BatchNorm(shape.in));
    conv1_ = register_module("conv1", preactivation_conv(shape.in, shape.width, 1));
    norm2_ = register_module("bn2", BatchNorm(shape.width));
    conv2_ = register_module("conv2", preactivation_conv(shape.width, shape.width, 3, shape.stride));
    norm3_ = register_module("bn3", BatchNorm(shape.width));
    conv3_ = register_module("conv3", preactivation_conv(shape.width, shape.out(), 1));
    if (shape.stride != 1 || shape.in != shape.out())
      downsample_ = register_module("downsample", preactivation_conv(shape.in, shape.out(), 1, shape.stride));
  }

  at::Tensor forward(const at::Tensor& input) {
    const at::Tensor active = norm1_.is_empty() ? input : kRelu(norm1_->forward(input));
    at::Tensor x = conv2_->forward(kRelu(norm2_->forward(conv1_->forward(active))));
    x = conv3_->forward(kRelu(norm3_->forward(x)));
    return x + (downsample_.is_empty() ? input : downsample_->forward(active));
  }

 private:
  BatchNorm norm1_{nullptr};
  nn::Conv2d conv1_{nullptr};
  BatchNorm norm2_{nullptr};
  nn::Conv2d conv2_{nullptr};
  BatchNorm norm3_{nullptr};
  nn::Conv2d conv3_{nullptr};
  nn::Conv2d downsample_{nullptr};
};

class ResNetV2 : public ImageModel {
 public:
  ResNetV2(const std::array<int, 4>& blocks, int classes) {
    conv1_ = register_module("conv1", preactivation_conv(3, kPreActivationFirst, 7, 2));
    bn1_ = register_module("bn1", BatchNorm(kPreActivationFirst));
    std::int64_t channels = kPreActivationFirst;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      auto stage = std::make_shared<Chain>();
      for (int k = 0; k < blocks[i]; ++k) {
        const BlockShape shape = {.in = channels,
                                  .width = kPreActivationFirst << i,
                                  .stride = i > 0 && k == 0 ? 2 : 1,
                                  .first = i == 0 && k == 0};
        stage->add_block(std::make_shared<PreActivation>(shape));
        channels = shape.out();
      }
      stages_.push_back(register_module("layer" + std::to_string(i + 1), std::move(stage)));
    }
    bn2_ = register_module("bn2", BatchNorm(channels));
    fc_ = register_module("fc", nn::Linear(channels, classes));
    initialise_convolutions(*this);
  }

  Logits forward(const at::Tensor& images) override {
    at::Tensor x = at::max_pool2d(kRelu(bn1_->forward(conv1_->forward(images))), {3, 3}, {2, 2}, {1, 1});
    for (const auto& stage : stages_) x = stage->forward(x);
    return {.main = fc_->forward(mean_of_pixels(kRelu(bn2_->forward(x))))};
  }

  std::vector<std::string> head() const override { return {"fc"}; }

  at::MemoryFormat memory_format() const override { return at::MemoryFormat::ChannelsLast; }

 private:
  nn::Conv2d conv1_{nullptr};
  BatchNorm bn1_{nullptr};
  std::vector<std::shared_ptr<Chain>> stages_;
  BatchNorm bn2_{nullptr};
  nn::Linear fc_{nullptr};
};

}  // namespace

Result<ModelHandle> make_resnet50_v2(const Shape& shape) {
  return std::make_shared<ResNetV2>(std::array{3, 4, 6, 3}, shape.classes);
}

Result<ModelHandle> make_resnet101_v2(const Shape& shape) {
  return std::make_shared<ResNetV2>(std::array{3, 4, 23, 3}, shape.classes);
}

Result<ModelHandle> make_resnet152_v2(const Shape& shape) {
  return std::make_shared<ResNetV2>(std::array{3, 8, 36, 3}, shape.classes);
}

}  // namespace xoe::models
