#include "frameworks/libtorch/fused_step.h"

#include <ATen/ATen.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <tuple>
#include <typeinfo>

#include "frameworks/libtorch/optimizer_state.h"
#include "frameworks/libtorch/parameter_parts.h"

namespace xoe::torch {
namespace optim = ::torch::optim;

namespace {

bool takes(const at::Tensor& parameter, const States& states) {
  if (!parameter.grad().defined()) return true;
  if (!lies_densely(parameter)) return false;
  const auto found = states.find(parameter.unsafeGetTensorImpl());
  if (found == states.end()) return true;
  for (const at::Tensor* field : fields_of(*found->second).tensors)
    if (field->defined() && !lies_like(*field, parameter)) return false;
  return true;
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
  note_change(parameter);
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
  note_change(parameter);
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
