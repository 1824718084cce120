#include "train/trainer/weight_average.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_lerp.h>

#include <algorithm>

#include "train/trainer/buffers.h"

namespace xoe::train {
namespace {

std::vector<at::Tensor> detached(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> same;
  for (const at::Tensor& tensor : tensors) same.push_back(tensor.detach());
  return same;
}

}  // namespace

WeightAverage::WeightAverage(models::ImageModel& model, double decay)
    : model_(model), decay_(decay), buffers_(copy_buffers(model)) {
  for (const at::Tensor& parameter : model.parameters()) parameters_.push_back(parameter.detach().clone());
}

void WeightAverage::update(std::int64_t step) {
  const at::NoGradGuard no_grad;
  const auto number = static_cast<double>(step);
  const double decay = std::min(decay_, (1 + number) / (10 + number));
  at::_foreach_lerp_(parameters_, detached(model_.parameters()), 1 - decay);
  const auto buffers = model_.buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].is_floating_point()) buffers_[i].lerp_(buffers[i], 1 - decay);
}

WeightAverage::InModel::InModel(WeightAverage& average)
    : average_(average), parameters_(detached(average.model_.parameters())), buffers_(copy_buffers(average.model_)) {
  const auto parameters = average.model_.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].set_data(average.parameters_[i]);
  set_buffers(average.model_, average.buffers_);
}

WeightAverage::InModel::~InModel() {
  const auto parameters = average_.model_.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].set_data(parameters_[i]);
  set_buffers(average_.model_, buffers_);
}

}  // namespace xoe::train
