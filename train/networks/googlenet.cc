#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include "core/base/error.h"
#include "train/networks/layers.h"
#include "train/networks/networks.h"

namespace xoe::models {
namespace {

constexpr double kGoogLeNetAuxiliaryWeight = 0.3;
constexpr int kSmallestGoogLeNetImage = 15;  // leaves one pixel for the last blocks
constexpr double kGoogLeNetSpread = 0.01;

std::shared_ptr<ConvNorm> google_unit(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1) {
  return std::make_shared<ConvNorm>(
      ConvNormSpec{.conv = {.in = in, .out = out, .kernel = {kernel, kernel}, .stride = stride},
                   .activation = kRelu,
                   .norm = {.epsilon = 1e-3},
                   .conv_name = "conv",
                   .norm_name = "bn"});
}

// Poolings whose last window may reach beyond the image.
at::Tensor ceil_pool_3x3(const at::Tensor& x) { return at::max_pool2d(x, {3, 3}, {2, 2}, {0, 0}, {1, 1}, true); }
at::Tensor ceil_pool_2x2(const at::Tensor& x) { return at::max_pool2d(x, {2, 2}, {2, 2}, {0, 0}, {1, 1}, true); }
at::Tensor largest_3x3(const at::Tensor& x) { return at::max_pool2d(x, {3, 3}, {1, 1}, {1, 1}, {1, 1}, true); }

// Channels of a block's convolutions.
struct GoogLeNetSpec {
  const char* name;
  std::int64_t in;
  std::int64_t alone;           // 1x1
  std::int64_t narrow, wide;    // 1x1 and 3x3
  std::int64_t narrow2, wide2;  // the same again: torchvision's network, as the program that it comes from, has no 5x5
  std::int64_t pooled;          // 1x1 behind a pooling

  std::int64_t out() const { return alone + wide + wide2 + pooled; }
};
constexpr std::array<GoogLeNetSpec, 9> kGoogLeNetBlocks = {{{"inception3a", 192, 64, 96, 128, 16, 32, 32},
                                                            {"inception3b", 256, 128, 128, 192, 32, 96, 64},
                                                            {"inception4a", 480, 192, 96, 208, 16, 48, 64},
                                                            {"inception4b", 512, 160, 112, 224, 24, 64, 64},
                                                            {"inception4c", 512, 128, 128, 256, 24, 64, 64},
                                                            {"inception4d", 512, 112, 144, 288, 32, 64, 64},
                                                            {"inception4e", 528, 256, 160, 320, 32, 128, 128},
                                                            {"inception5a", 832, 256, 160, 320, 32, 128, 128},
                                                            {"inception5b", 832, 384, 192, 384, 48, 128, 128}}};
// Behind these blocks stand a pooling or an auxiliary classifier.
constexpr std::size_t kBlock3b = 1, kBlock4a = 2, kBlock4d = 5, kBlock4e = 6;

// Four chains that share their input, and whose channels are joined.
class InceptionBlock : public nn::Module {
 public:
  explicit InceptionBlock(const GoogLeNetSpec& spec)
      : alone_(register_module("branch1", google_unit(spec.in, spec.alone, 1))) {
    add("branch2", spec.in, spec.narrow, spec.wide);
    add("branch3", spec.in, spec.narrow2, spec.wide2);
    auto pooled = std::make_shared<Chain>();
    pooled->add_step(largest_3x3);
    pooled->add(google_unit(spec.in, spec.pooled, 1));
    chains_.push_back(register_module("branch4", std::move(pooled)));
  }

  at::Tensor forward(const at::Tensor& x) {
    std::vector<at::Tensor> parts = {alone_->forward(x)};
    for (const auto& chain : chains_) parts.push_back(chain->forward(x));
    return at::cat(parts, 1);
  }

 private:
  void add(const char* name, std::int64_t in, std::int64_t narrow, std::int64_t wide) {
    auto chain = std::make_shared<Chain>();
    chain->add(google_unit(in, narrow, 1));
    chain->add(google_unit(narrow, wide, 3));
    chains_.push_back(register_module(name, std::move(chain)));
  }

  std::shared_ptr<ConvNorm> alone_;
  std::vector<std::shared_ptr<Chain>> chains_;
};

class GoogLeNetAux : public nn::Module {
 public:
  GoogLeNetAux(std::int64_t in, int classes)
      : conv_(register_module("conv", google_unit(in, 128, 1))),
        fc1_(register_module("fc1", nn::Linear(128 * 4 * 4, 1024))),
        fc2_(register_module("fc2", nn::Linear(1024, classes))) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor few = conv_->forward(at::adaptive_avg_pool2d(x, {4, 4})).flatten(1);
    return fc2_->forward(dropout_->forward(fc1_->forward(few).relu_()));
  }

 private:
  std::shared_ptr<ConvNorm> conv_;
  nn::Linear fc1_;
  nn::Linear fc2_;
  nn::Dropout dropout_ = register_module("dropout", nn::Dropout(0.7));
};

class GoogLeNet : public ImageModel {
 public:
  explicit GoogLeNet(int classes) {
    conv1_ = register_module("conv1", google_unit(3, 64, 7, 2));
    conv2_ = register_module("conv2", google_unit(64, 64, 1));
    conv3_ = register_module("conv3", google_unit(64, 192, 3));
    for (const GoogLeNetSpec& spec : kGoogLeNetBlocks) {
      const auto block = register_module(spec.name, std::make_shared<InceptionBlock>(spec));
      blocks_.push_back(block_step(block.get(), recomputes_));
    }
    auxiliary1_ = register_module("aux1", std::make_shared<GoogLeNetAux>(kGoogLeNetBlocks[kBlock4a].out(), classes));
    auxiliary2_ = register_module("aux2", std::make_shared<GoogLeNetAux>(kGoogLeNetBlocks[kBlock4d].out(), classes));
    register_module("dropout", dropout_);
    fc_ = register_module("fc", nn::Linear(kGoogLeNetBlocks.back().out(), classes));
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* const convolution = module->as<nn::Conv2d>())
        nn::init::normal_(convolution->weight, 0, kGoogLeNetSpread);
      if (auto* const linear = module->as<nn::Linear>()) nn::init::normal_(linear->weight, 0, kGoogLeNetSpread);
    }
  }

  Logits forward(const at::Tensor& images) override {
    at::Tensor x = ceil_pool_3x3(conv1_->forward(images));
    x = ceil_pool_3x3(conv3_->forward(conv2_->forward(x)));
    Logits logits = {.auxiliary_weight = kGoogLeNetAuxiliaryWeight};
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      x = blocks_[i](x);
      if (is_training() && i == kBlock4a) logits.auxiliary.push_back(auxiliary1_->forward(x));
      if (is_training() && i == kBlock4d) logits.auxiliary.push_back(auxiliary2_->forward(x));
      if (i == kBlock3b) x = ceil_pool_3x3(x);
      if (i == kBlock4e) x = ceil_pool_2x2(x);
    }
    logits.main = fc_->forward(dropout_->forward(mean_of_pixels(x)));
    return logits;
  }

  std::vector<std::string> head() const override { return {"aux1.fc2", "aux2.fc2", "fc"}; }

  int recompute_blocks(bool on) override {
    recomputes_ = on;
    return static_cast<int>(blocks_.size());
  }

  at::MemoryFormat memory_format() const override { return at::MemoryFormat::ChannelsLast; }

 private:
  std::shared_ptr<ConvNorm> conv1_;
  std::shared_ptr<ConvNorm> conv2_;
  std::shared_ptr<ConvNorm> conv3_;
  std::vector<Step> blocks_;
  bool recomputes_ = false;
  std::shared_ptr<GoogLeNetAux> auxiliary1_;
  std::shared_ptr<GoogLeNetAux> auxiliary2_;
  nn::Dropout dropout_ = nn::Dropout(0.2);
  nn::Linear fc_{nullptr};
};

}  // namespace

Result<ModelHandle> make_googlenet(const Shape& shape) {
  XOE_TRY(check_image_size("googlenet", shape, kSmallestGoogLeNetImage));
  return std::make_shared<GoogLeNet>(shape.classes);
}

}  // namespace xoe::models
