#include "chexnet/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <filesystem>
#include <memory>

#include "xoe/torch/tensors.h"

namespace chexnet {

using xoe::failure;
using xoe::Result;

Result<xoe::stats::LabelAurocs> SplitScores::aurocs() const {
  const auto count = static_cast<std::size_t>(scores.numel());
  return xoe::stats::auroc_of_labels({scores.const_data_ptr<double>(), count}, {targets.const_data_ptr<float>(), count},
                                     kLabels);
}

at::Tensor pixels_of(const xoe::data::ImageBatch& batch) {
  return at::from_blob(
      batch.pixels.get(), {batch.count, batch.channels, batch.height, batch.width}, [memory = batch.pixels](void*) {},
      at::kFloat);
}

at::Tensor targets_of(const xoe::data::ImageBatch& batch) {
  const auto memory = std::make_shared<std::vector<float>>(batch.targets);
  return at::from_blob(
      memory->data(), {batch.count, kLabels}, [memory](void*) {}, at::kFloat);
}

Result<SplitScores> score_split(xoe::models::ImageModel& model, xoe::data::ImageIterator& split,
                                xoe::Communicator& world) {
  const at::NoGradGuard no_gradients;
  if (auto started = split.start_epoch(0); !started) return failure(started.error());
  const std::int64_t images = split.records_per_epoch();
  SplitScores all;
  // Each rank fills the rows of its images; the sum over the ranks has all.
  all.scores = at::zeros({images, kLabels}, at::kDouble);
  all.targets = at::zeros({images, kLabels}, at::kFloat);
  const at::Tensor seen = at::zeros({images}, at::kDouble);
  std::shared_ptr<const xoe::data::ImageOrigins> origins;
  model.eval();
  for (std::int64_t i = 0; i < split.batches_per_epoch(); ++i) {
    auto next = split.next();
    if (!next) return failure(next.error());
    const xoe::data::ImageBatch& batch = **next;
    origins = batch.origins;
    if (batch.count == 0) continue;
    const at::Tensor rows = at::from_blob(const_cast<std::int64_t*>(batch.records.data()), {batch.count}, at::kLong);
    all.scores.index_copy_(0, rows, model.forward(pixels_of(batch)).main.to(at::kDouble));
    all.targets.index_copy_(0, rows, targets_of(batch));
    seen.index_add_(0, rows, at::ones({batch.count}, at::kDouble));
  }
  model.train();
  for (const at::Tensor& each : {all.scores, all.targets, seen})
    if (auto reduced = xoe::torch::allreduce(each, world, xoe::ReduceOp::kSum); !reduced)
      return failure(reduced.error());
  if (!(seen == 1).all().item<bool>())
    return failure(xoe::Code::kInternal, "an image of the split is missing, or came twice");
  for (std::int64_t i = 0; i < images; ++i)
    all.images.push_back(std::filesystem::path(origins->origin(i).file).filename().string());
  return all;
}

}  // namespace chexnet
