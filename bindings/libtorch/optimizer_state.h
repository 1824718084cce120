// What libtorch's element-wise optimizers remember about a parameter, as lists of tensors and numbers.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace xoe::torch {

// Pointers into a state: the same fields in the same order for every state of one kind of optimizer. Tensors may be
// undefined.
struct StateFields {
  std::vector<at::Tensor*> tensors;
  std::vector<std::int64_t*> numbers;
};
StateFields fields_of(::torch::optim::OptimizerParamState& state);

// An empty state of the kind that `optimizer` keeps. nullptr when it does not work element by element, or is not known.
std::unique_ptr<::torch::optim::OptimizerParamState> make_state(const ::torch::optim::Optimizer& optimizer);

}  // namespace xoe::torch
