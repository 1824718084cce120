// Blocks whose activations are not kept for the backward pass, but computed again there.
#pragma once

#include <torch/nn/module.h>

#include <functional>

namespace xoe::models {

// forward(x), of which only x is kept: backward runs it again, with the same random numbers and the same autocast, and
// leaves running statistics as they are (T. Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016). The same
// numbers as forward(x), but for the last bits on a GPU.
// REQUIRES: `block` has all parameters that forward uses, outlives the graph, and does not overwrite x.
at::Tensor recomputed(::torch::nn::Module& block, const std::function<at::Tensor(const at::Tensor&)>& forward,
                      const at::Tensor& x);

}  // namespace xoe::models
