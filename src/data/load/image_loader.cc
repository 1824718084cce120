#include "data/load/image_loader.h"

#include <algorithm>

#include "base/error.h"
#include "data/image/augment/batch.h"

namespace xoe::data {
namespace {

enum Tensor : std::size_t { kPixels, kLabels };

std::vector<TensorSpec> specs_of(const ImageRecipe& image, bool multi_label) {
  const std::int64_t side = image.making.size;
  const TensorSpec pixels{image.making.dtype, {3, side, side}};  // only their number counts
  if (multi_label) return {pixels, {DType::kFloat32, {image.classes}}};
  return {pixels, {DType::kInt64, {}}};
}

}  // namespace

ImageLoader::ImageLoader(std::shared_ptr<const ImageSource> source, const LoaderRecipe& recipe)
    : source_(std::move(source)), recipe_(recipe) {
  for (int i = 0; i < std::max(recipe.making.threads, 1); ++i)
    workers_.push_back(std::make_unique<ImageWorker>(source_, recipe.image));
}

Result<std::unique_ptr<ImageLoader>> ImageLoader::open(std::shared_ptr<const ImageSource> source,
                                                       const StagePtr<Batch<RecordRef>>& upstream,
                                                       const LoaderRecipe& recipe) {
  std::unique_ptr<ImageLoader> loader(new ImageLoader(std::move(source), recipe));
  const bool multi_label = loader->multi_label();
  const auto make = [loader = loader.get(), multi_label](const RecordRef& ref, std::span<void* const> places,
                                                         int worker) {
    ImageWorker::Places to{.pixels = places[kPixels]};
    if (multi_label)
      to.targets = static_cast<float*>(places[kLabels]);
    else
      to.label = static_cast<std::int64_t*>(places[kLabels]);
    return loader->workers_[static_cast<std::size_t>(worker)]->make(ref, to);
  };
  MapAndBatchOptions making = recipe.making;
  making.name_elements = false;  // records have names of their own
  XOE_ASSIGN(loader->tensors_,
             map_and_batch<RecordRef>(upstream, recipe.batch, specs_of(recipe.image, multi_label), make, making));
  return loader;
}

Result<std::optional<ImageBatch>> ImageLoader::next() {
  XOE_ASSIGN(auto tensors, tensors_->next());
  if (!tensors) return std::nullopt;
  ImageBatch batch;
  const auto count = static_cast<std::size_t>(tensors->count);
  if (multi_label()) {
    const auto* targets = tensors->data<float>(kLabels);
    batch.targets.assign(targets, targets + count * static_cast<std::size_t>(recipe_.image.classes));
  } else {
    const auto* labels = tensors->data<std::int64_t>(kLabels);
    batch.labels.assign(labels, labels + count);
  }
  batch.pixels = std::move(tensors->tensors[kPixels]);
  batch.dtype = recipe_.image.making.dtype;
  batch.layout = recipe_.image.making.layout;
  batch.count = tensors->count;
  batch.height = batch.width = recipe_.image.making.size;
  batch.epoch = tensors->epoch;
  batch.index = tensors->index;
  mix_images(batch);
  return std::optional<ImageBatch>(std::move(batch));
}

// In the caller's thread: it needs the whole batch. Ranks draw apart from one another.
void ImageLoader::mix_images(ImageBatch& batch) {
  const ImageMaking& making = recipe_.image.making;
  const BatchMixing& mixing = making.augmentation.mixing;
  if (!making.training || batch.count == 0 || (mixing.mixup_alpha == 0 && mixing.cutmix_alpha == 0)) return;
  const auto classes = static_cast<std::size_t>(recipe_.image.classes);
  if (batch.targets.empty()) {
    batch.targets.resize(batch.labels.size() * classes);
    for (std::size_t i = 0; i < batch.labels.size(); ++i)
      batch.targets[i * classes + static_cast<std::size_t>(batch.labels[i])] = 1;
  }
  Random random(mix(recipe_.image.seed, static_cast<std::uint64_t>(recipe_.image.rank)),
                static_cast<std::uint64_t>(batch.epoch), static_cast<std::uint64_t>(batch.index));
  apply(draw_mixing(random, mixing, making.size, making.size),
        FloatImages{.data = batch.floats(),
                    .count = batch.count,
                    .channels = 3,
                    .height = making.size,
                    .width = making.size,
                    .layout = making.layout},
        SoftLabels{.data = batch.targets.data(), .classes = recipe_.image.classes}, scratch_);
}

PipelineReport ImageLoader::report() const {
  PipelineReport report = report_of(tensors_->stages(), recipe_.processes);
  report.making = tensors_->stats();
  report.steps = ImageWorker::no_steps();
  for (const auto& worker : workers_) worker->add_steps(report.steps);
  report.elements = report.making.tasks;
  const auto side = static_cast<std::int64_t>(recipe_.image.making.size);
  report.batch_bytes =
      3 * side * side * recipe_.batch * static_cast<std::int64_t>(dtype_size(recipe_.image.making.dtype));
  return report;
}

State ImageLoader::save() const {
  State state = tensors_->save();
  state.push("images.seed", static_cast<std::int64_t>(recipe_.image.seed));
  state.push("images.order", static_cast<std::int64_t>(recipe_.order_fingerprint));
  state.push("images.records", source_->records());
  return state;
}

Status ImageLoader::restore(State state) {
  XOE_ASSIGN(const auto records, state.pop("images.records"));
  XOE_ASSIGN(const auto order, state.pop("images.order"));
  XOE_ASSIGN(const auto seed, state.pop("images.seed"));
  if (records != source_->records())
    return failure(Code::kInvalidArgument, "saved position: of {} records; here are {}", records, source_->records());
  if (seed != static_cast<std::int64_t>(recipe_.image.seed))
    return failure(Code::kInvalidArgument, "saved position: of seed {}; here it is {}", seed, recipe_.image.seed);
  if (order != static_cast<std::int64_t>(recipe_.order_fingerprint))
    return failure(Code::kInvalidArgument,
                   "saved position: of another order (shuffle_buffer, shard_by_file, training, or other files)");
  return tensors_->restore(std::move(state));
}

}  // namespace xoe::data
