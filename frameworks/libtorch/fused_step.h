// libtorch's SGD, Adam and AdamW in one pass over memory.
#pragma once

#include <torch/optim/optimizer.h>

namespace xoe::torch {

// Whether `optimizer` is exactly one of these classes: classes derived from them may do something else.
bool has_fused_step(const ::torch::optim::Optimizer& optimizer);

// What optimizer.step() does, state included, to its last bits: fused multiply-adds, and Adam's mean as lerp, round at
// other places than libtorch's passes. Changes nothing and returns false where it is not for it to do: another class,
// or a parameter with a gradient that is not a dense float32 tensor in host memory. Uses libtorch's intra-op threads;
// bits do not depend on their number.
bool fused_step(::torch::optim::Optimizer& optimizer);

// The same in parts: whether it is for fused_step() to do, and one parameter of it.
bool takes_fused_step(::torch::optim::Optimizer& optimizer);
// REQUIRES: takes_fused_step().
void fused_step(::torch::optim::Optimizer& optimizer, const ::torch::optim::OptimizerParamGroup& group,
                const at::Tensor& parameter);

}  // namespace xoe::torch
