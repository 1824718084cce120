#include "xoe/torch/layerwise.h"

#include <ATen/core/grad_mode.h>
#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <cmath>

#include "frameworks/libtorch/parameter_parts.h"

namespace xoe::torch {
namespace optim = ::torch::optim;

namespace {

// Norms are summed over parts of this size, whatever the number of threads.
constexpr std::int64_t kNormPart = 65536;

// The sum of norms(tensors, offset) over the parts of a parameter.
template <class Norms>
LayerNorms add_norms(const at::Tensor& parameter, const Norms& norms) {
  float* const data = parameter.data_ptr<float>();
  const float* const gradient = parameter.grad().const_data_ptr<float>();
  const std::int64_t count = parameter.numel();
  std::vector<reduce::SquaredNorms> parts(static_cast<std::size_t>((count + kNormPart - 1) / kNormPart));
  at::parallel_for(0, std::ssize(parts), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t begin = i * kNormPart;
      const void* const part = gradient + begin;
      parts[static_cast<std::size_t>(i)] =
          norms(reduce::StepTensors{.parameter = data + begin,
                                    .gradients = {&part, 1},
                                    .count = static_cast<std::size_t>(std::min(kNormPart, count - begin))},
                begin);
    }
  });
  LayerNorms sum;
  for (const reduce::SquaredNorms& part : parts) {
    sum.parameter += part.parameter;
    sum.update += part.update;
  }
  return sum;
}

double square_of_norm(const at::Tensor& tensor) {
  const double norm = at::linalg_vector_norm(tensor, 2, at::OptionalIntArrayRef(), false, at::kDouble).item<double>();
  return norm * norm;
}

reduce::SquaredNorms kernel_norms(const LayerNorms& norms) {
  return {.parameter = norms.parameter, .update = norms.update};
}

bool lie_densely(const at::Tensor& parameter, std::initializer_list<at::Tensor> state) {
  return lies_densely(parameter) &&
         std::ranges::all_of(state, [&](const at::Tensor& one) { return !one.defined() || lies_like(one, parameter); });
}

reduce::SgdOptions numbers_of(const LARSOptions& options) {
  return {.learning_rate = options.lr(),
          .momentum = options.momentum(),
          .dampening = options.dampening(),
          .weight_decay = options.weight_decay(),
          .nesterov = options.nesterov()};
}

reduce::AdamOptions numbers_of(const LAMBOptions& options, std::int64_t step) {
  return {.learning_rate = options.lr(),
          .beta1 = std::get<0>(options.betas()),
          .beta2 = std::get<1>(options.betas()),
          .epsilon = options.eps(),
          .weight_decay = options.weight_decay(),
          .step = step};
}

at::Tensor lamb_update(const at::Tensor& parameter, const optim::AdamParamState& state, const LAMBOptions& options) {
  const auto [beta1, beta2] = options.betas();
  const auto step = static_cast<double>(state.step());
  const at::Tensor size = (state.exp_avg_sq() / (1 - std::pow(beta2, step))).sqrt_().add_(options.eps());
  return (state.exp_avg() / (1 - std::pow(beta1, step))).div_(size).add_(parameter, options.weight_decay());
}

template <class T>
void keep(::torch::serialize::OutputArchive& archive, const char* name, const T& option) {
  archive.write(name, c10::IValue(option));
}
template <class T>
void fetch(::torch::serialize::InputArchive& archive, const char* name, T& option) {
  c10::IValue value;
  archive.read(name, value);
  option = value.to<T>();
}

const LARSOptions& lars_options(const optim::OptimizerParamGroup& group) {
  return static_cast<const LARSOptions&>(group.options());
}
const LAMBOptions& lamb_options(const optim::OptimizerParamGroup& group) {
  return static_cast<const LAMBOptions&>(group.options());
}

}  // namespace

// libtorch knows the options of its own optimizers only, and gives each group of another one the defaults.
LayerwiseOptimizer::LayerwiseOptimizer(const std::vector<optim::OptimizerParamGroup>& groups,
                                       std::unique_ptr<optim::OptimizerOptions> defaults)
    : Optimizer(groups, std::move(defaults)) {
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (groups[i].has_options()) param_groups()[i].set_options(groups[i].options().clone());
}

at::Tensor LayerwiseOptimizer::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_grad(true);
    loss = closure();
  }
  const at::NoGradGuard no_grad;
  for (const optim::OptimizerParamGroup& group : param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined() || parameter.numel() == 0) continue;
      TORCH_CHECK(parameter.grad().layout() == at::kStrided, "LARS and LAMB take no sparse gradients");
      apply(parameter, group, measure(parameter, group));
    }
  }
  return loss;
}

// --- LARS ---

LARS::LARS(const std::vector<optim::OptimizerParamGroup>& groups, const LARSOptions& defaults)
    : LayerwiseOptimizer(groups, std::make_unique<LARSOptions>(defaults)) {
  for (const double value :
       {defaults.lr(), defaults.momentum(), defaults.weight_decay(), defaults.trust_coefficient(), defaults.eps()})
    TORCH_CHECK(value >= 0, "LARS: options must not be negative, and one is ", value);
  TORCH_CHECK(!defaults.nesterov() || (defaults.momentum() > 0 && defaults.dampening() == 0),
              "LARS: nesterov needs a momentum, and no dampening");
}

LayerNorms LARS::measure(const at::Tensor& parameter, const optim::OptimizerParamGroup& group) {
  const LARSOptions& options = lars_options(group);
  if (!options.layerwise()) return {};
  if (!lies_densely(parameter)) return {square_of_norm(parameter), square_of_norm(parameter.grad())};
  const reduce::SgdOptions numbers = numbers_of(options);
  return add_norms(parameter, [&](const reduce::StepTensors& tensors, std::int64_t) {
    return reduce::lars_norms(numbers, tensors);
  });
}

void LARS::apply(const at::Tensor& parameter, const optim::OptimizerParamGroup& group, const LayerNorms& norms) {
  const LARSOptions& options = lars_options(group);
  reduce::SgdOptions numbers = numbers_of(options);
  numbers.trust = reduce::lars_trust(numbers, kernel_norms(norms), options.trust_coefficient(), options.eps());
  at::Tensor buffer;
  if (options.momentum() != 0) {
    at::Tensor& kept = state_of<optim::SGDParamState>(state(), parameter).momentum_buffer();
    numbers.first = !kept.defined();
    if (numbers.first) kept = at::empty_like(parameter, {}, at::MemoryFormat::Preserve);
    buffer = kept;
  }
  if (lie_densely(parameter, {buffer})) {
    float* const momentum = buffer.defined() ? buffer.data_ptr<float>() : nullptr;
    over_parts(parameter, [&](const reduce::StepTensors& tensors, std::int64_t begin) {
      reduce::sgd_step(numbers, tensors, momentum == nullptr ? nullptr : momentum + begin);
    });
    return note_change(parameter);
  }
  at::Tensor update = parameter.grad().add(parameter, options.weight_decay()).mul_(numbers.trust);
  if (buffer.defined()) {
    if (numbers.first) {
      buffer.copy_(update);
    } else {
      buffer.mul_(options.momentum()).add_(update, 1 - options.dampening());
    }
    update = options.nesterov() ? update.add_(buffer, options.momentum()) : buffer;
  }
  parameter.add_(update, -options.lr());
}

void LARS::save(::torch::serialize::OutputArchive& archive) const {
  optim::serialize<optim::SGDParamState, LARSOptions>(archive, *this);
}
void LARS::load(::torch::serialize::InputArchive& archive) {
  optim::serialize<optim::SGDParamState, LARSOptions>(archive, *this);
}

void LARSOptions::serialize(::torch::serialize::OutputArchive& archive) const {
  keep(archive, "lr", lr());
  keep(archive, "momentum", momentum());
  keep(archive, "dampening", dampening());
  keep(archive, "weight_decay", weight_decay());
  keep(archive, "nesterov", nesterov());
  keep(archive, "trust_coefficient", trust_coefficient());
  keep(archive, "eps", eps());
  keep(archive, "layerwise", layerwise());
}
void LARSOptions::serialize(::torch::serialize::InputArchive& archive) {
  fetch(archive, "lr", lr());
  fetch(archive, "momentum", momentum());
  fetch(archive, "dampening", dampening());
  fetch(archive, "weight_decay", weight_decay());
  fetch(archive, "nesterov", nesterov());
  fetch(archive, "trust_coefficient", trust_coefficient());
  fetch(archive, "eps", eps());
  fetch(archive, "layerwise", layerwise());
}

// --- LAMB ---

LAMB::LAMB(const std::vector<optim::OptimizerParamGroup>& groups, const LAMBOptions& defaults)
    : LayerwiseOptimizer(groups, std::make_unique<LAMBOptions>(defaults)) {
  for (const double value : {defaults.lr(), defaults.eps(), defaults.weight_decay()})
    TORCH_CHECK(value >= 0, "LAMB: options must not be negative, and one is ", value);
  for (const double beta : {std::get<0>(defaults.betas()), std::get<1>(defaults.betas())})
    TORCH_CHECK(beta >= 0 && beta < 1, "LAMB: betas must be at least 0 and less than 1, and one is ", beta);
}

LayerNorms LAMB::measure(const at::Tensor& parameter, const optim::OptimizerParamGroup& group) {
  const LAMBOptions& options = lamb_options(group);
  auto& state = state_of<optim::AdamParamState>(this->state(), parameter);
  if (!state.exp_avg().defined()) {
    state.exp_avg(zeros_beside(parameter));
    state.exp_avg_sq(zeros_beside(parameter));
  }
  state.step(state.step() + 1);
  if (lie_densely(parameter, {state.exp_avg(), state.exp_avg_sq()})) {
    const reduce::AdamOptions numbers = numbers_of(options, state.step());
    float* const mean = state.exp_avg().data_ptr<float>();
    float* const square = state.exp_avg_sq().data_ptr<float>();
    return add_norms(parameter, [&](const reduce::StepTensors& tensors, std::int64_t begin) {
      return reduce::lamb_moments(numbers, tensors, mean + begin, square + begin);
    });
  }
  const auto [beta1, beta2] = options.betas();
  state.exp_avg().lerp_(parameter.grad(), 1 - beta1);
  state.exp_avg_sq().mul_(beta2).addcmul_(parameter.grad(), parameter.grad(), 1 - beta2);
  if (!options.layerwise()) return {};
  return {square_of_norm(parameter), square_of_norm(lamb_update(parameter, state, options))};
}

void LAMB::apply(const at::Tensor& parameter, const optim::OptimizerParamGroup& group, const LayerNorms& norms) {
  const LAMBOptions& options = lamb_options(group);
  const auto& state = state_of<optim::AdamParamState>(this->state(), parameter);
  const double trust = options.layerwise() ? reduce::lamb_trust(kernel_norms(norms)) : 1;
  if (lie_densely(parameter, {state.exp_avg(), state.exp_avg_sq()})) {
    const reduce::AdamOptions numbers = numbers_of(options, state.step());
    const float* const mean = state.exp_avg().const_data_ptr<float>();
    const float* const square = state.exp_avg_sq().const_data_ptr<float>();
    over_parts(parameter, [&](const reduce::StepTensors& tensors, std::int64_t begin) {
      reduce::lamb_apply(numbers, tensors, mean + begin, square + begin, trust);
    });
    return note_change(parameter);
  }
  parameter.add_(lamb_update(parameter, state, options), -options.lr() * trust);
}

void LAMB::save(::torch::serialize::OutputArchive& archive) const {
  optim::serialize<optim::AdamParamState, LAMBOptions>(archive, *this);
}
void LAMB::load(::torch::serialize::InputArchive& archive) {
  optim::serialize<optim::AdamParamState, LAMBOptions>(archive, *this);
}

void LAMBOptions::serialize(::torch::serialize::OutputArchive& archive) const {
  keep(archive, "lr", lr());
  keep(archive, "betas", betas());
  keep(archive, "eps", eps());
  keep(archive, "weight_decay", weight_decay());
  keep(archive, "layerwise", layerwise());
}
void LAMBOptions::serialize(::torch::serialize::InputArchive& archive) {
  fetch(archive, "lr", lr());
  fetch(archive, "betas", betas());
  fetch(archive, "eps", eps());
  fetch(archive, "weight_decay", weight_decay());
  fetch(archive, "layerwise", layerwise());
}

}  // namespace xoe::torch
