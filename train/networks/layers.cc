#include "train/networks/layers.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/empty.h>

namespace xoe::models {

at::Tensor mean_of_pixels(const at::Tensor& x) { return at::adaptive_avg_pool2d(x, {1, 1}).flatten(1); }

nn::Conv2d conv2d(const ConvSpec& spec) {
  const auto [height, width] = spec.kernel;
  nn::Conv2dOptions options(spec.in, spec.out, {height, width});
  options.stride(spec.stride).groups(spec.groups).bias(spec.bias);
  if (spec.padded) options.padding(::torch::ExpandingArray<2>({height / 2, width / 2}));
  return nn::Conv2d(options);
}

at::Tensor Chain::forward(const at::Tensor& x) {
  at::Tensor y = x;
  for (const Step& step : steps_) y = step(y);
  return y;
}

ConvNorm::ConvNorm(const ConvNormSpec& spec)
    : conv_(register_module(spec.conv_name, conv2d(spec.conv))),
      norm_(register_module(spec.norm_name, BatchNorm(spec.conv.out, spec.norm.epsilon, spec.norm.momentum))),
      activation_(spec.activation) {}

at::Tensor ConvNorm::forward(const at::Tensor& x) {
  const at::Tensor y = norm_->forward(conv_->forward(x));
  return activation_ == nullptr ? y : activation_(y);
}

SqueezeExcite::SqueezeExcite(std::int64_t channels, std::int64_t squeezed)
    : fc1_(register_module("fc1", conv2d({.in = channels, .out = squeezed, .kernel = {1, 1}, .bias = true}))),
      fc2_(register_module("fc2", conv2d({.in = squeezed, .out = channels, .kernel = {1, 1}, .bias = true}))) {}

at::Tensor SqueezeExcite::forward(const at::Tensor& x) {
  const at::Tensor means = at::adaptive_avg_pool2d(x, {1, 1});
  return x * fc2_->forward(at::silu(fc1_->forward(means))).sigmoid();
}

at::Tensor StochasticDepth::forward(const at::Tensor& x) {
  if (!is_training() || probability_ == 0) return x;
  const double kept = 1 - probability_;
  return x * at::empty({x.size(0), 1, 1, 1}, x.options()).bernoulli_(kept).div_(kept);
}

InvertedResidual::InvertedResidual(const char* name, std::shared_ptr<Chain> chain, bool same_shape, double drop)
    : chain_(register_module(name, std::move(chain))),
      same_shape_(same_shape),
      depth_(register_module("stochastic_depth", std::make_shared<StochasticDepth>(drop))) {}

at::Tensor InvertedResidual::forward(const at::Tensor& x) {
  const at::Tensor y = chain_->forward(x);
  return same_shape_ ? depth_->forward(y) + x : y;
}

void add_expansion(Chain& chain, const ExpansionSpec& spec) {
  if (spec.width != spec.in) {
    chain.add(std::make_shared<ConvNorm>(ConvNormSpec{.conv = {.in = spec.in, .out = spec.width, .kernel = {1, 1}},
                                                      .activation = spec.activation,
                                                      .norm = spec.norm}));
  }
  chain.add(std::make_shared<ConvNorm>(ConvNormSpec{.conv = {.in = spec.width,
                                                             .out = spec.width,
                                                             .kernel = {spec.kernel, spec.kernel},
                                                             .stride = spec.stride,
                                                             .groups = spec.width},
                                                    .activation = spec.activation,
                                                    .norm = spec.norm}));
}

void initialise_convolutions(const nn::Module& network, nn::init::FanModeType mode) {
  for (const auto& module : network.modules(/*include_self=*/false)) {
    auto* const convolution = module->as<nn::Conv2d>();
    if (convolution == nullptr) continue;
    nn::init::kaiming_normal_(convolution->weight, 0.0, mode, ::torch::kReLU);
    if (convolution->bias.defined()) nn::init::zeros_(convolution->bias);
  }
}

}  // namespace xoe::models
