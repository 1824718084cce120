#include "train/trainer/shard_sums.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <chrono>
#include <utility>

#include "core/base/error.h"
#include "core/engine/shards/shard_tree.h"

namespace xoe::train {
namespace {

std::size_t count_of(const std::vector<at::Tensor>& tensors) {
  std::size_t count = 0;
  for (const at::Tensor& tensor : tensors) count += static_cast<std::size_t>(tensor.numel());
  return count;
}

// The values in the order in which the parameter lies in memory.
at::Tensor as_parameter(const at::Tensor& gradient, const at::Tensor& parameter) {
  if (gradient.strides() == parameter.strides() && gradient.scalar_type() == at::kFloat) return gradient;
  return at::empty_strided(parameter.sizes(), parameter.strides(), at::kFloat).copy_(gradient);
}

StepSums sum_of_node(const double* values, ShardRange node) {
  if (node.count() == 1) {
    const double* const own = values + static_cast<std::size_t>(node.begin) * kSumsOfShard;
    return {.loss = own[0], .correct = own[1], .images = own[2]};
  }
  const int middle = engine::middle_of(node);
  StepSums sums = sum_of_node(values, {node.begin, middle});
  sums += sum_of_node(values, {middle, node.end});
  return sums;
}

}  // namespace

ShardSums::ShardSums(models::ImageModel& model, std::unique_ptr<engine::ShardSum> sum)
    : sum_(std::move(sum)), parameters_(model.parameters()) {
  for (const at::Tensor& buffer : model.buffers()) (buffer.is_floating_point() ? buffers_ : others_).push_back(buffer);
}

Result<std::unique_ptr<ShardSums>> ShardSums::create(models::ImageModel& model, Engine& engine, int shards) {
  std::size_t count = 0;
  std::vector<at::Tensor> summed = model.parameters();
  for (const at::Tensor& buffer : model.buffers())
    if (buffer.is_floating_point()) summed.push_back(buffer);
  for (const at::Tensor& tensor : summed)
    if (!tensor.is_cpu() || tensor.scalar_type() != at::kFloat || !tensor.is_non_overlapping_and_dense())
      return failure(Code::kUnsupported,
                     "logical shards: a parameter or buffer is {} on {}, and must be float32 on cpu",
                     c10::toString(tensor.scalar_type()), tensor.device().str());
  count = count_of(summed);
  XOE_ASSIGN(auto sum, engine::ShardSum::create(engine.runtime(), "logical shards", shards, count, 1.0 / shards));
  return std::unique_ptr<ShardSums>(new ShardSums(model, std::move(sum)));
}

void ShardSums::begin() {
  begun_.clear();
  for (const auto* some : {&buffers_, &others_})
    for (const at::Tensor& buffer : *some) begun_.push_back(buffer.detach().clone());
}

void ShardSums::begin_shard() {
  const at::NoGradGuard no_grad;
  auto value = begun_.begin();
  for (const auto* some : {&buffers_, &others_})
    for (const at::Tensor& buffer : *some) buffer.copy_(*value++);
}

Status ShardSums::take(int shard) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> held;
  std::vector<engine::ShardPiece> pieces;
  for (at::Tensor& parameter : parameters_) {
    at::Tensor& gradient = parameter.mutable_grad();
    const auto count = static_cast<std::size_t>(parameter.numel());
    if (!gradient.defined()) {
      pieces.push_back({nullptr, count});
      continue;
    }
    held.push_back(as_parameter(gradient, parameter));
    pieces.push_back({held.back().const_data_ptr<float>(), count});
    gradient.reset();
  }
  // What does not change stays as it is: a mean of equal values may have other bits than they have.
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    held.push_back(as_parameter(buffers_[i] - begun_[i], buffers_[i]));
    pieces.push_back({held.back().const_data_ptr<float>(), static_cast<std::size_t>(buffers_[i].numel())});
  }
  return sum_->add(shard, pieces);
}

Status ShardSums::finish() {
  XOE_ASSIGN(float* values, sum_->wait(std::chrono::nanoseconds::max()));
  const at::NoGradGuard no_grad;
  const auto next = [&values](const at::Tensor& like) {
    float* const begin = std::exchange(values, values + like.numel());
    return at::from_blob(begin, like.sizes(), like.strides(), at::kFloat);
  };
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad() = next(parameter);
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(begun_[i] + next(buffers_[i]));
  return {};
}

std::vector<double> in_places_of_shards(const std::vector<StepSums>& sums, ShardRange mine, int shards) {
  std::vector<double> values(static_cast<std::size_t>(shards) * kSumsOfShard);
  auto place = values.begin() + mine.begin * static_cast<std::ptrdiff_t>(kSumsOfShard);
  for (const StepSums& own : sums)
    for (const double value : {own.loss, own.correct, own.images}) *place++ = value;
  return values;
}

StepSums sum_of_shards(const double* values, int shards) { return sum_of_node(values, {0, shards}); }

}  // namespace xoe::train
