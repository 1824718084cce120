#include <torch/nn/functional/pooling.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <array>
#include <vector>

#include "train/networks/layers.h"
#include "train/networks/networks.h"

namespace xoe::models {
namespace {

nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  return conv2d({.in = in, .out = out, .kernel = {kernel, kernel}, .stride = stride});
}

struct Stage {
  std::int64_t width;
  int blocks;
  std::int64_t stride;
};

// A chain of convolution and batch norm, with ReLU between, added to its input: 3x3-3x3 ("basic") or 1x1-3x3-1x1
// ("bottleneck").
class Block : public nn::Module {
 public:
  Block(std::int64_t in, std::int64_t width, std::int64_t out, std::int64_t stride, bool bottleneck) {
    if (bottleneck) {
      add(conv(in, width, 1, 1), width);
      add(conv(width, width, 3, stride), width);
      add(conv(width, out, 1, 1), out);
    } else {
      add(conv(in, width, 3, stride), width);
      add(conv(width, out, 3, 1), out);
    }
    if (stride != 1 || in != out) {
      downsample_ = register_module("downsample", nn::Sequential(conv(in, out, 1, stride), BatchNorm(out)));
    }
  }

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor x = input;
    for (std::size_t i = 0; i < convs_.size(); ++i) {
      if (i > 0) x.relu_();
      x = norms_[i]->forward(convs_[i]->forward(x));
    }
    x += downsample_.is_empty() ? input : downsample_->forward(input);
    return x.relu_();
  }

  at::Tensor last_gamma() const { return norms_.back()->weight; }

 private:
  void add(nn::Conv2d convolution, std::int64_t channels) {
    const std::string index = std::to_string(convs_.size() + 1);
    convs_.push_back(register_module("conv" + index, std::move(convolution)));
    norms_.push_back(register_module("bn" + index, BatchNorm(channels)));
  }

  std::vector<nn::Conv2d> convs_;
  std::vector<BatchNorm> norms_;
  nn::Sequential downsample_{nullptr};
};

class ResNet : public ImageModel {
 public:
  ResNet(const std::array<int, 4>& blocks, bool bottleneck, int classes) : bottleneck_(bottleneck) {
    conv1_ = register_module("conv1", conv(3, 64, 7, 2));
    bn1_ = register_module("bn1", BatchNorm(64));
    std::int64_t channels = 64;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const Stage stage = {.width = std::int64_t{64} << i, .blocks = blocks[i], .stride = i == 0 ? 1 : 2};
      stages_.push_back(register_module("layer" + std::to_string(i + 1), make_stage(stage, bottleneck, channels)));
    }
    fc_ = register_module("fc", nn::Linear(channels, classes));
    initialise();
  }

  Logits forward(const at::Tensor& images) override {
    at::Tensor x = bn1_->forward(conv1_->forward(images)).relu_();
    x = at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1});
    for (auto& stage : stages_) x = stage->forward(x);
    return {.main = fc_->forward(mean_of_pixels(x))};
  }

  std::vector<std::string> head() const override { return {"fc"}; }

  at::MemoryFormat memory_format() const override {
    return bottleneck_ ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  }

 private:
  static std::shared_ptr<Chain> make_stage(const Stage& stage, bool bottleneck, std::int64_t& channels) {
    const std::int64_t out = bottleneck ? stage.width * 4 : stage.width;
    auto blocks = std::make_shared<Chain>();
    for (int i = 0; i < stage.blocks; ++i) {
      blocks->add_block(std::make_shared<Block>(channels, stage.width, out, i == 0 ? stage.stride : 1, bottleneck));
      channels = out;
    }
    return blocks;
  }

  void initialise() {
    initialise_convolutions(*this);
    // Each block starts as the identity, which makes the first steps at a large learning rate safe.
    for (const auto& module : modules(/*include_self=*/false))
      if (const auto* block = module->as<Block>()) nn::init::zeros_(block->last_gamma());
  }

  bool bottleneck_;
  nn::Conv2d conv1_{nullptr};
  BatchNorm bn1_{nullptr};
  std::vector<std::shared_ptr<Chain>> stages_;
  nn::Linear fc_{nullptr};
};

}  // namespace

Result<ModelHandle> make_resnet18(const Shape& shape) {
  return std::make_shared<ResNet>(std::array{2, 2, 2, 2}, /*bottleneck=*/false, shape.classes);
}

Result<ModelHandle> make_resnet34(const Shape& shape) {
  return std::make_shared<ResNet>(std::array{3, 4, 6, 3}, /*bottleneck=*/false, shape.classes);
}

Result<ModelHandle> make_resnet50(const Shape& shape) {
  return std::make_shared<ResNet>(std::array{3, 4, 6, 3}, /*bottleneck=*/true, shape.classes);
}

Result<ModelHandle> make_resnet101(const Shape& shape) {
  return std::make_shared<ResNet>(std::array{3, 4, 23, 3}, /*bottleneck=*/true, shape.classes);
}

Result<ModelHandle> make_resnet152(const Shape& shape) {
  return std::make_shared<ResNet>(std::array{3, 8, 36, 3}, /*bottleneck=*/true, shape.classes);
}

}  // namespace xoe::models
