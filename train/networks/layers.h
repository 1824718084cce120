// Blocks that several networks are made of. Their parameters have the names that torchvision gives them.
#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/silu.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train/networks/batch_norm.h"
#include "train/networks/recompute.h"

namespace xoe::models {

namespace nn = ::torch::nn;

// May overwrite its argument.
using Step = std::function<at::Tensor(const at::Tensor&)>;
using Activation = at::Tensor (*)(const at::Tensor&);

inline constexpr Activation kRelu = [](const at::Tensor& x) { return x.relu_(); };
inline constexpr Activation kRelu6 = [](const at::Tensor& x) {
  at::Tensor same = x;
  return at::hardtanh_(same, 0, 6);
};
inline constexpr Activation kSilu = [](const at::Tensor& x) { return at::silu(x); };  // backward needs the argument

// [N, C, H, W] to the means over height and width, [N, C].
at::Tensor mean_of_pixels(const at::Tensor& x);

struct ConvSpec {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::array<std::int64_t, 2> kernel = {3, 3};
  std::int64_t stride = 1;
  std::int64_t groups = 1;
  bool padded = true;  // by half the kernel
  bool bias = false;
};
nn::Conv2d conv2d(const ConvSpec& spec);

// The step of `block`, which is recomputed in backward while `recomputes` is set.
template <typename M>
Step block_step(M* block, const bool& recomputes) {
  return [block, &recomputes](const at::Tensor& x) {
    const auto forward = [block](const at::Tensor& input) { return block->forward(input); };
    if (!recomputes || !block->is_training() || !at::GradMode::is_enabled()) return forward(x);
    return recomputed(*block, forward, x);
  };
}

// Modules and functions that run one after the other. (libtorch's Sequential cannot hold another one.)
class Chain : public nn::Module {
 public:
  template <typename M>
  void add(std::string name, std::shared_ptr<M> module) {
    steps_.emplace_back([module = module.get()](const at::Tensor& x) { return module->forward(x); });
    register_module(std::move(name), std::move(module));
  }
  // The name is the place in the chain.
  template <typename M>
  void add(std::shared_ptr<M> module) {
    add(std::to_string(steps_.size()), std::move(module));
  }
  template <typename M>
  void add(const nn::ModuleHolder<M>& module) {
    add(module.ptr());
  }
  void add_step(Step step) { steps_.push_back(std::move(step)); }
  // A module that does not overwrite its input, and may be recomputed.
  template <typename M>
  void add_block(std::string name, std::shared_ptr<M> block) {
    steps_.push_back(block_step(block.get(), recomputes_));
    register_module(std::move(name), std::move(block));
    ++blocks_;
  }
  template <typename M>
  void add_block(std::shared_ptr<M> block) {
    add_block(std::to_string(steps_.size()), std::move(block));
  }
  // Whether blocks compute their activations again in backward, in place of keeping them. How many there are.
  int recompute_blocks(bool on) {
    recomputes_ = on;
    return blocks_;
  }

  at::Tensor forward(const at::Tensor& x);

 private:
  std::vector<Step> steps_;
  bool recomputes_ = false;
  int blocks_ = 0;
};

// Of a batch norm.
struct NormSpec {
  double epsilon = 1e-5;
  double momentum = 0.1;
};

// Convolution, batch norm, activation.
struct ConvNormSpec {
  ConvSpec conv;
  Activation activation = nullptr;
  NormSpec norm = {};
  const char* conv_name = "0";
  const char* norm_name = "1";
};
class ConvNorm : public nn::Module {
 public:
  explicit ConvNorm(const ConvNormSpec& spec);
  at::Tensor forward(const at::Tensor& x);
  at::Tensor weight() const { return conv_->weight; }  // of the convolution

 private:
  nn::Conv2d conv_;
  BatchNorm norm_;
  Activation activation_;
};

// Each channel times a factor in (0, 1) that all channels' means determine (J. Hu et al., Squeeze-and-Excitation
// Networks, 2017), with SiLU between.
class SqueezeExcite : public nn::Module {
 public:
  SqueezeExcite(std::int64_t channels, std::int64_t squeezed);
  at::Tensor forward(const at::Tensor& x);

 private:
  nn::Conv2d fc1_;
  nn::Conv2d fc2_;
};

// In training mode each image's part of the batch becomes zero with this probability, and grows by 1 / (1 -
// probability) otherwise (G. Huang et al., Deep Networks with Stochastic Depth, 2016).
class StochasticDepth : public nn::Module {
 public:
  explicit StochasticDepth(double probability) : probability_(probability) {}
  at::Tensor forward(const at::Tensor& x);
  void set_probability(double probability) { probability_ = probability; }

 private:
  double probability_;
};

// An inverted residual (M. Sandler et al., MobileNetV2, 2018): a chain that widens, filters and narrows, to which its
// input is added where the shapes are the same.
class InvertedResidual : public nn::Module {
 public:
  InvertedResidual(const char* name, std::shared_ptr<Chain> chain, bool same_shape, double drop = 0);
  at::Tensor forward(const at::Tensor& x);

 private:
  std::shared_ptr<Chain> chain_;
  bool same_shape_;
  std::shared_ptr<StochasticDepth> depth_;
};

// Adds the first half of an inverted residual: a 1x1 convolution to `width` channels, if that is more than `in`, and a
// depthwise one.
struct ExpansionSpec {
  std::int64_t in;
  std::int64_t width;
  std::int64_t kernel;
  std::int64_t stride;
  Activation activation;
  NormSpec norm = {};
};
void add_expansion(Chain& chain, const ExpansionSpec& spec);

// Convolutions as K. He et al., Delving Deep into Rectifiers, 2015, and zero biases.
void initialise_convolutions(const nn::Module& network, nn::init::FanModeType mode = ::torch::kFanOut);

}  // namespace xoe::models
