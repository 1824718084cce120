// The state of element-wise and layer-wise optimizers for a parameter, as lists of tensors and numbers.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace xoe::torch {

// Pointers into a state, with the same fields in the same order for all states of a class of optimizer. Tensors may be
// undefined.
struct StateFields {
  std::vector<at::Tensor*> tensors;
  std::vector<std::int64_t*> numbers;
};
StateFields fields_of(::torch::optim::OptimizerParamState& state);

// An empty state of the optimizer's class; nullptr when the class is neither element-wise nor layer-wise, or unknown.
std::unique_ptr<::torch::optim::OptimizerParamState> make_state(const ::torch::optim::Optimizer& optimizer);

}  // namespace xoe::torch
