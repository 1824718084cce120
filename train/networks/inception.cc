#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/max_pool2d.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>

#include "core/base/error.h"
#include "train/networks/layers.h"
#include "train/networks/networks.h"

namespace xoe::models {
namespace {

constexpr int kPublishedImage = 299;
constexpr double kInceptionAuxiliaryWeight = 0.4;  // as C. Szegedy et al.'s own program has it
constexpr int kSmallestImage = 75;  // leaves 1x1 for the last blocks; the auxiliary classifier needs all of 299

std::shared_ptr<ConvNorm> unit(const ConvSpec& conv) {
  return std::make_shared<ConvNorm>(ConvNormSpec{
      .conv = conv, .activation = kRelu, .norm = {.epsilon = 1e-3}, .conv_name = "conv", .norm_name = "bn"});
}

at::Tensor average_3x3(const at::Tensor& x) { return at::avg_pool2d(x, {3, 3}, {1, 1}, {1, 1}); }
at::Tensor halve_3x3(const at::Tensor& x) { return at::max_pool2d(x, {3, 3}, {2, 2}); }

// Chains that share their input, and whose channels are joined.
class Mixed : public nn::Module {
 public:
  // A unit of this module. A kernel that halves is not padded, the others are.
  Step conv(const std::string& name, std::int64_t in, std::int64_t out, std::array<std::int64_t, 2> kernel,
            std::int64_t stride = 1) {
    const auto module =
        register_module(name, unit({.in = in, .out = out, .kernel = kernel, .stride = stride, .padded = stride == 1}));
    return [module = module.get()](const at::Tensor& x) { return module->forward(x); };
  }
  void branch(std::vector<Step> steps) { branches_.push_back(std::move(steps)); }

  at::Tensor forward(const at::Tensor& x) {
    std::vector<at::Tensor> parts;
    for (const auto& branch : branches_) {
      at::Tensor y = x;
      for (const Step& step : branch) y = step(y);
      parts.push_back(y);
    }
    return at::cat(parts, 1);
  }

 private:
  std::vector<std::vector<Step>> branches_;
};

// The results of both, joined.
Step both(Step first, Step second) {
  return [first = std::move(first), second = std::move(second)](const at::Tensor& x) {
    return at::cat({first(x), second(x)}, 1);
  };
}

std::shared_ptr<Mixed> block_a(std::int64_t in, std::int64_t pooled) {
  auto m = std::make_shared<Mixed>();
  m->branch({m->conv("branch1x1", in, 64, {1, 1})});
  m->branch({m->conv("branch5x5_1", in, 48, {1, 1}), m->conv("branch5x5_2", 48, 64, {5, 5})});
  m->branch({m->conv("branch3x3dbl_1", in, 64, {1, 1}), m->conv("branch3x3dbl_2", 64, 96, {3, 3}),
             m->conv("branch3x3dbl_3", 96, 96, {3, 3})});
  m->branch({average_3x3, m->conv("branch_pool", in, pooled, {1, 1})});
  return m;
}

std::shared_ptr<Mixed> block_b(std::int64_t in) {
  auto m = std::make_shared<Mixed>();
  m->branch({m->conv("branch3x3", in, 384, {3, 3}, 2)});
  m->branch({m->conv("branch3x3dbl_1", in, 64, {1, 1}), m->conv("branch3x3dbl_2", 64, 96, {3, 3}),
             m->conv("branch3x3dbl_3", 96, 96, {3, 3}, 2)});
  m->branch({halve_3x3});
  return m;
}

std::shared_ptr<Mixed> block_c(std::int64_t width) {
  constexpr std::int64_t kIn = 768;
  auto m = std::make_shared<Mixed>();
  m->branch({m->conv("branch1x1", kIn, 192, {1, 1})});
  m->branch({m->conv("branch7x7_1", kIn, width, {1, 1}), m->conv("branch7x7_2", width, width, {1, 7}),
             m->conv("branch7x7_3", width, 192, {7, 1})});
  m->branch({m->conv("branch7x7dbl_1", kIn, width, {1, 1}), m->conv("branch7x7dbl_2", width, width, {7, 1}),
             m->conv("branch7x7dbl_3", width, width, {1, 7}), m->conv("branch7x7dbl_4", width, width, {7, 1}),
             m->conv("branch7x7dbl_5", width, 192, {1, 7})});
  m->branch({average_3x3, m->conv("branch_pool", kIn, 192, {1, 1})});
  return m;
}

std::shared_ptr<Mixed> block_d(std::int64_t in) {
  auto m = std::make_shared<Mixed>();
  m->branch({m->conv("branch3x3_1", in, 192, {1, 1}), m->conv("branch3x3_2", 192, 320, {3, 3}, 2)});
  m->branch({m->conv("branch7x7x3_1", in, 192, {1, 1}), m->conv("branch7x7x3_2", 192, 192, {1, 7}),
             m->conv("branch7x7x3_3", 192, 192, {7, 1}), m->conv("branch7x7x3_4", 192, 192, {3, 3}, 2)});
  m->branch({halve_3x3});
  return m;
}

std::shared_ptr<Mixed> block_e(std::int64_t in) {
  auto m = std::make_shared<Mixed>();
  m->branch({m->conv("branch1x1", in, 320, {1, 1})});
  Step narrow = m->conv("branch3x3_1", in, 384, {1, 1});
  Step wide = m->conv("branch3x3_2a", 384, 384, {1, 3});
  Step high = m->conv("branch3x3_2b", 384, 384, {3, 1});
  m->branch({narrow, both(wide, high)});
  narrow = m->conv("branch3x3dbl_1", in, 448, {1, 1});
  Step square = m->conv("branch3x3dbl_2", 448, 384, {3, 3});
  wide = m->conv("branch3x3dbl_3a", 384, 384, {1, 3});
  high = m->conv("branch3x3dbl_3b", 384, 384, {3, 1});
  m->branch({narrow, square, both(wide, high)});
  m->branch({average_3x3, m->conv("branch_pool", in, 192, {1, 1})});
  return m;
}

// The auxiliary classifier.
class InceptionAux : public nn::Module {
 public:
  explicit InceptionAux(int classes)
      : conv0_(register_module("conv0", unit({.in = 768, .out = 128, .kernel = {1, 1}}))),
        conv1_(register_module("conv1", unit({.in = 128, .out = 768, .kernel = {5, 5}, .padded = false}))),
        fc_(register_module("fc", nn::Linear(768, classes))) {}

  at::Tensor forward(const at::Tensor& x) {
    return fc_->forward(mean_of_pixels(conv1_->forward(conv0_->forward(at::avg_pool2d(x, {5, 5}, {3, 3})))));
  }

  void initialise() {
    nn::init::normal_(conv1_->weight(), 0, 0.01);
    nn::init::normal_(fc_->weight, 0, 0.001);
  }

 private:
  std::shared_ptr<ConvNorm> conv0_;
  std::shared_ptr<ConvNorm> conv1_;
  nn::Linear fc_;
};

class InceptionV3 : public ImageModel {
 public:
  InceptionV3(int classes, bool auxiliary) {
    stem(&trunk_, "Conv2d_1a_3x3", {.in = 3, .out = 32, .stride = 2, .padded = false});
    stem(&trunk_, "Conv2d_2a_3x3", {.in = 32, .out = 32, .padded = false});
    stem(&trunk_, "Conv2d_2b_3x3", {.in = 32, .out = 64});
    trunk_.emplace_back(halve_3x3);
    stem(&trunk_, "Conv2d_3b_1x1", {.in = 64, .out = 80, .kernel = {1, 1}});
    stem(&trunk_, "Conv2d_4a_3x3", {.in = 80, .out = 192, .padded = false});
    trunk_.emplace_back(halve_3x3);
    add(&trunk_, "Mixed_5b", block_a(192, 32));
    add(&trunk_, "Mixed_5c", block_a(256, 64));
    add(&trunk_, "Mixed_5d", block_a(288, 64));
    add(&trunk_, "Mixed_6a", block_b(288));
    add(&trunk_, "Mixed_6b", block_c(128));
    add(&trunk_, "Mixed_6c", block_c(160));
    add(&trunk_, "Mixed_6d", block_c(160));
    add(&trunk_, "Mixed_6e", block_c(192));
    if (auxiliary) auxiliary_ = register_module("AuxLogits", std::make_shared<InceptionAux>(classes));
    add(&top_, "Mixed_7a", block_d(768));
    add(&top_, "Mixed_7b", block_e(1280));
    add(&top_, "Mixed_7c", block_e(2048));
    fc_ = register_module("fc", nn::Linear(2048, classes));
    initialise();
  }

  Logits forward(const at::Tensor& images) override {
    at::Tensor x = images;
    for (const Step& step : trunk_) x = step(x);
    Logits logits;
    if (auxiliary_ && is_training())
      logits = {.auxiliary = {auxiliary_->forward(x)}, .auxiliary_weight = kInceptionAuxiliaryWeight};
    for (const Step& step : top_) x = step(x);
    logits.main = fc_->forward(dropout_->forward(mean_of_pixels(x)));
    return logits;
  }

  std::vector<std::string> head() const override {
    return auxiliary_ ? std::vector<std::string>{"AuxLogits.fc", "fc"} : std::vector<std::string>{"fc"};
  }

  int recompute_blocks(bool on) override {
    recomputes_ = on;
    return blocks_;
  }

  at::MemoryFormat memory_format() const override { return at::MemoryFormat::ChannelsLast; }

 private:
  template <typename M>
  void add(std::vector<Step>* steps, const std::string& name, std::shared_ptr<M> module) {
    register_module(name, module);
    steps->emplace_back([module = module.get()](const at::Tensor& x) { return module->forward(x); });
  }
  void add(std::vector<Step>* steps, const std::string& name, const std::shared_ptr<Mixed>& block) {
    register_module(name, block);
    steps->push_back(block_step(block.get(), recomputes_));
    ++blocks_;
  }
  void stem(std::vector<Step>* steps, const std::string& name, const ConvSpec& conv) { add(steps, name, unit(conv)); }

  // As published: cut off at twenty deviations, which none reaches.
  void initialise() {
    constexpr double kSpread = 0.1;
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* const convolution = module->as<nn::Conv2d>()) nn::init::normal_(convolution->weight, 0, kSpread);
      if (auto* const linear = module->as<nn::Linear>()) nn::init::normal_(linear->weight, 0, kSpread);
    }
    if (auxiliary_) auxiliary_->initialise();
  }

  std::vector<Step> trunk_;  // up to where the auxiliary classifier begins
  std::vector<Step> top_;
  bool recomputes_ = false;
  int blocks_ = 0;
  std::shared_ptr<InceptionAux> auxiliary_;
  nn::Dropout dropout_ = register_module("dropout", nn::Dropout(0.5));
  nn::Linear fc_{nullptr};
};

}  // namespace

Result<ModelHandle> make_inception_v3(const Shape& shape) {
  XOE_TRY(check_image_size("inception_v3", shape, kSmallestImage, kPublishedImage));
  return std::make_shared<InceptionV3>(shape.classes, std::min(shape.height, shape.width) >= kPublishedImage);
}

}  // namespace xoe::models
