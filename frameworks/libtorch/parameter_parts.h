// What the fused steps of several optimizers share: parameters in parts, and their state.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "core/reduce/optimizer_step.h"
#include "frameworks/libtorch/memory_order.h"

namespace xoe::torch {

using States = std::remove_reference_t<decltype(std::declval<::torch::optim::Optimizer&>().state())>;

// Dense, with the elements in the parameter's order.
inline bool lies_like(const at::Tensor& tensor, const at::Tensor& parameter) {
  return tensor.layout() == at::kStrided && tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat &&
         same_order(tensor, parameter);
}

// Whether parameter and gradient are dense float32 tensors in host memory, in the same order.
inline bool lies_densely(const at::Tensor& parameter) {
  return parameter.is_non_overlapping_and_dense() && lies_like(parameter, parameter) &&
         lies_like(parameter.grad(), parameter);
}

// Calls step(tensors, offset) for parts of the parameter, on libtorch's threads.
template <class Step>
void over_parts(const at::Tensor& parameter, const Step& step) {
  float* const data = parameter.data_ptr<float>();
  const float* const gradient = parameter.grad().const_data_ptr<float>();
  at::parallel_for(0, parameter.numel(), at::internal::GRAIN_SIZE, [&](std::int64_t begin, std::int64_t end) {
    const void* const part = gradient + begin;
    step(
        reduce::StepTensors{
            .parameter = data + begin, .gradients = {&part, 1}, .count = static_cast<std::size_t>(end - begin)},
        begin);
  });
}

// Autograd notices that saved values are gone.
inline void note_change(const at::Tensor& parameter) { parameter.unsafeGetTensorImpl()->bump_version(); }

inline at::Tensor zeros_beside(const at::Tensor& parameter) {
  return at::zeros_like(parameter, {}, at::MemoryFormat::Preserve);
}

template <class State>
State& state_of(States& states, const at::Tensor& parameter) {
  auto& state = states[parameter.unsafeGetTensorImpl()];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

}  // namespace xoe::torch
