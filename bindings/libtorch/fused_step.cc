#include "fused_step.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "memory_order.h"
#include "optimizer_state.h"
#include "reduce/optimizer_step.h"

namespace xoe::torch {
namespace optim = ::torch::optim;

namespace {

using States = std::remove_reference_t<decltype(std::declval<optim::Optimizer&>().state())>;

// Dense, with the elements in the parameter's order.
bool lies_like(const at::Tensor& tensor, const at::Tensor& parameter) {
  return tensor.layout() == at::kStrided && tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat &&
         same_order(tensor, parameter);
}

bool takes(const at::Tensor& parameter, const States& states) {
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) return true;
  if (!parameter.is_non_overlapping_and_dense() || !lies_like(parameter, parameter) || !lies_like(gradient, parameter))
    return false;
  const auto found = states.find(parameter.unsafeGetTensorImpl());
  if (found == states.end()) return true;
  for (const at::Tensor* field : fields_of(*found->second).tensors)
    if (field->defined() && !lies_like(*field, parameter)) return false;
  return true;
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
  parameter.unsafeGetTensorImpl()->bump_version();  // autograd notices that saved values are gone
}

at::Tensor zeros_beside(const at::Tensor& parameter) {
  return at::zeros_like(parameter, {}, at::MemoryFormat::Preserve);
}

template <class State>
State& state_of(States& states, const at::Tensor& parameter) {
  auto& state = states[parameter.unsafeGetTensorImpl()];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

void sgd_step(const at::Tensor& parameter, const optim::SGDOptions& options, States& states) {
  reduce::SgdOptions numbers{.learning_rate = options.lr(),
                             .momentum = options.momentum(),
                             .dampening = options.dampening(),
                             .weight_decay = options.weight_decay(),
                             .nesterov = options.nesterov()};
  float* momentum = nullptr;
  if (options.momentum() != 0) {
    at::Tensor& buffer = state_of<optim::SGDParamState>(states, parameter).momentum_buffer();
    numbers.first = !buffer.defined();
    if (numbers.first) buffer = at::empty_like(parameter, {}, at::MemoryFormat::Preserve);
    momentum = buffer.data_ptr<float>();
  }
  over_parts(parameter, [&](const reduce::StepTensors& tensors, std::int64_t begin) {
    reduce::sgd_step(numbers, tensors, momentum == nullptr ? nullptr : momentum + begin);
  });
}

template <class State, class Options>
void adam_step(const at::Tensor& parameter, const Options& options, bool decoupled, States& states) {
  State& state = state_of<State>(states, parameter);
  if (!state.exp_avg().defined()) {
    state.exp_avg(zeros_beside(parameter));
    state.exp_avg_sq(zeros_beside(parameter));
  }
  if (options.amsgrad() && !state.max_exp_avg_sq().defined()) state.max_exp_avg_sq(zeros_beside(parameter));
  state.step(state.step() + 1);
  const reduce::AdamOptions numbers{.learning_rate = options.lr(),
                                    .beta1 = std::get<0>(options.betas()),
                                    .beta2 = std::get<1>(options.betas()),
                                    .epsilon = options.eps(),
                                    .weight_decay = options.weight_decay(),
                                    .step = state.step(),
                                    .decoupled = decoupled};
  float* const mean = state.exp_avg().template data_ptr<float>();
  float* const square = state.exp_avg_sq().template data_ptr<float>();
  float* const largest = options.amsgrad() ? state.max_exp_avg_sq().template data_ptr<float>() : nullptr;
  over_parts(parameter, [&](const reduce::StepTensors& tensors, std::int64_t begin) {
    reduce::adam_step(numbers, tensors, mean + begin, square + begin, largest == nullptr ? nullptr : largest + begin);
  });
}

}  // namespace

bool has_fused_step(const optim::Optimizer& optimizer) {
  const std::type_info& type = typeid(optimizer);
  return type == typeid(optim::SGD) || type == typeid(optim::Adam) || type == typeid(optim::AdamW);
}

bool takes_fused_step(optim::Optimizer& optimizer) {
  if (!has_fused_step(optimizer)) return false;
  for (const optim::OptimizerParamGroup& group : optimizer.param_groups())
    for (const at::Tensor& parameter : group.params())
      if (!takes(parameter, optimizer.state())) return false;
  return true;
}

void fused_step(optim::Optimizer& optimizer, const optim::OptimizerParamGroup& group, const at::Tensor& parameter) {
  const at::NoGradGuard no_grad;
  if (!parameter.grad().defined() || parameter.numel() == 0) return;
  if (typeid(optimizer) == typeid(optim::SGD)) {
    sgd_step(parameter, static_cast<const optim::SGDOptions&>(group.options()), optimizer.state());
  } else if (typeid(optimizer) == typeid(optim::Adam)) {
    adam_step<optim::AdamParamState>(parameter, static_cast<const optim::AdamOptions&>(group.options()),
                                     /*decoupled=*/false, optimizer.state());
  } else {
    adam_step<optim::AdamWParamState>(parameter, static_cast<const optim::AdamWOptions&>(group.options()),
                                      /*decoupled=*/true, optimizer.state());
  }
}

bool fused_step(optim::Optimizer& optimizer) {
  if (!takes_fused_step(optimizer)) return false;
  for (const optim::OptimizerParamGroup& group : optimizer.param_groups())
    for (const at::Tensor& parameter : group.params()) fused_step(optimizer, group, parameter);
  return true;
}

}  // namespace xoe::torch
