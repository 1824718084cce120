#include "train/trainer/passes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros.h>

#include "train/trainer/device.h"
#include "train/trainer/joined_batch_norm.h"

namespace xoe::train {

std::vector<PassSums> Passes::run(const std::vector<Batch>& batches) {
  std::vector<PassSums> passes;
  if (shards_) shards_->sums.begin();
  for (const Batch& batch : batches) {
    if (shards_) {
      seed_step(setup_, options_, batch.shard, shards_->step);
      shards_->sums.begin_shard();
    }
    at::Tensor loss;
    {
      const auto span = trace_.span(Phase::kForward);
      loss = forward(batch, passes);
    }
    if (!trains() || (!setup_.emulated && !loss.defined())) continue;
    const auto span = trace_.span(Phase::kBackward);
    if (setup_.emulated) {
      setup_.emulated->backward(batch.count());
    } else {
      update_.scaled(loss).backward();
    }
    if (!shards_) continue;
    if (const Status taken = shards_->sums.take(batch.shard); !taken) throw PassFailed(taken.error());
  }
  return passes;
}

at::Tensor Passes::forward(const Batch& batch, std::vector<PassSums>& passes) {
  const auto images = static_cast<double>(batch.count());
  if (setup_.emulated) {
    setup_.emulated->forward(batch.count());
    passes.push_back({.loss = at::zeros({}), .correct = at::zeros({}, at::kLong), .images = images});
    return {};
  }
  if (batch.count() == 0) {  // at the end of an epoch other ranks have images, and this one's gradients are zeros
    passes.push_back({.loss = at::zeros({}), .correct = at::zeros({}, at::kLong), .images = 0});
    return {};
  }
  const at::AutoGradMode for_backward(trains());
  const Autocast autocast(setup_.device, options_.precision);
  const auto loss_of = [&](const at::Tensor& logits) {
    return at::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Mean, -100, options_.label_smoothing);
  };
  const models::Logits logits = setup_.model->forward(place_images(setup_, batch.images));
  at::Tensor loss = loss_of(logits.main);
  passes.push_back(
      {.loss = loss.detach(), .correct = logits.main.detach().argmax(1).eq(batch.labels).sum(), .images = images});
  for (const at::Tensor& auxiliary : logits.auxiliary) loss = loss + logits.auxiliary_weight * loss_of(auxiliary);
  if (batch.weight != 1) loss = loss * batch.weight;
  return loss;
}

std::vector<StepSums> Passes::read(const std::vector<PassSums>& passes) {
  std::optional<StepTrace::Span> waits_for_gpu;
  if (!setup_.device.is_cpu()) waits_for_gpu.emplace(trace_, Phase::kBackward);
  std::vector<StepSums> sums;
  for (const PassSums& pass : passes)
    sums.push_back({.loss = pass.loss.item<double>() * pass.images,
                    .correct = static_cast<double>(pass.correct.item<std::int64_t>()),
                    .images = pass.images});
  return sums;
}

}  // namespace xoe::train
