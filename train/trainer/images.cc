#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include "core/base/error.h"
#include "train/trainer/batches.h"
#include "xoe/data.h"

namespace xoe::train {
namespace {

Result<Batch> to_batch(data::ImageBatch images, int classes) {
  for (int i = 0; i < images.count; ++i)
    if (const std::int64_t label = images.labels[static_cast<std::size_t>(i)]; label >= classes)
      return failure(Code::kDataLoss,
                     "{}: its class is {}, counted from 0, but there are {} (--classes, --label-offset)",
                     images.origin(i).name, label, classes);
  auto keep = [pixels = images.pixels](void*) {};  // the tensor's storage holds the batch's memory
  return Batch{.images = at::from_blob(images.floats(), {images.count, images.channels, images.height, images.width},
                                       std::move(keep), at::kFloat),
               .labels = at::tensor(images.labels, at::kLong),
               .epoch = images.epoch,
               .left = images.left,
               .records = std::move(images.records)};
}

class ImageBatches : public BatchSource {
 public:
  ImageBatches(std::unique_ptr<data::ImageIterator> training, std::unique_ptr<data::ImageIterator> held_out,
               const TrainOptions& options, const Share& share)
      : training_(std::move(training)),
        held_out_(std::move(held_out)),
        batch_(options.batch),
        keeps_rest_(options.remainder == data::Remainder::kKeep),
        share_(share) {
    info_.classes = training_->classes();
    note_lengths();
  }

  const DataInfo& info() const noexcept override { return info_; }
  Result<int> count_classes() override {
    return info_.classes > 0 ? Result<int>(info_.classes) : training_->count_classes();
  }
  void set_classes(int classes) override { info_.classes = classes; }

  Status reshard(const Share& share) override {
    share_ = share;
    XOE_TRY(training_->reshard(share.rank, share.size, share.local_size, share.joint_batch));
    if (held_out_) XOE_TRY(held_out_->reshard(share.rank, share.size, share.local_size, 0));  // or as its shards say
    note_lengths();
    return {};
  }

  OpenedSplits opened() const override {
    OpenedSplits splits{.training = training_->opened(), .held_out = {}};
    splits.held_out.where = splits.training.where;
    if (held_out_) splits.held_out = held_out_->opened();
    splits.held_out.where += " (for evaluation)";
    return splits;
  }

  Result<Batch> next() override {
    const data::State before = keeps_rest_ ? training_->save() : data::State();
    XOE_ASSIGN(auto images, training_->next());
    if (!images) return failure(Code::kInternal, "the endless iterator over training images ended");
    const double weight = weight_of(*images, before);
    XOE_ASSIGN(Batch batch, to_batch(std::move(*images), info_.classes));
    batch.weight = weight;
    return batch;
  }

  void keep(const Batch& batch) override {
    if (!batch.images.is_cpu() || batch.records.empty()) return;
    const auto images = std::make_shared<at::Tensor>(batch.images);
    const auto* labels = batch.labels.const_data_ptr<std::int64_t>();
    data::ImageBatch kept;
    kept.pixels = {images, images->data_ptr()};
    kept.labels.assign(labels, labels + batch.count());
    kept.count = static_cast<int>(batch.count());
    kept.epoch = batch.epoch;
    kept.records = batch.records;
    training_->keep(kept);
  }

  std::string save() const override { return training_->save().to_text(); }

  Status restore(std::string_view position) override {
    XOE_ASSIGN(auto state, data::State::from_text(position));
    return training_->restore(std::move(state));
  }
  Result<std::int64_t> next_epoch(std::string_view position) const override {
    XOE_ASSIGN(const auto state, data::State::from_text(position));
    const auto epoch = state.find("repeat.epoch"), started = state.find("repeat.started");
    if (!epoch || !started || *epoch < 0 || *epoch == INT64_MAX)
      return failure(Code::kDataLoss, "the checkpoint's position in the data names no epoch: '{}'", position);
    return *epoch + (*started != 0 ? 1 : 0);
  }
  Status start_epoch(std::int64_t epoch) override { return training_->start_epoch(epoch); }

  std::int64_t skipped_images() const noexcept override { return training_->skipped() + training_->lost(); }

  std::string explain() const override { return data::explain(training_->report()); }

  Status start_held_out() override { return held_out_ ? held_out_->restore(held_out_start_) : Status(); }

  Result<std::optional<Batch>> next_held_out() override {
    if (!held_out_) return std::nullopt;
    XOE_ASSIGN(auto images, held_out_->next());
    if (!images) return std::nullopt;
    XOE_ASSIGN(Batch batch, to_batch(std::move(*images), info_.classes));
    return std::optional<Batch>(std::move(batch));
  }

 private:
  double weight_of(const data::ImageBatch& images, const data::State& before) const {
    std::int64_t all = share_.joint_batch > 0 ? share_.joint_batch : std::int64_t{share_.size} * batch_;
    if (keeps_rest_ && images.left == 0) {
      // What the batches before it in the epoch have left.
      const bool begun = before.find("repeat.epoch") == images.epoch && before.find("repeat.started") != 0;
      all = training_->records_per_epoch() - (begun ? before.find("deal.consumed").value_or(0) : 0);
    }
    return static_cast<double>(std::int64_t{images.count} * share_.size) / static_cast<double>(all);
  }

  void note_lengths() {
    info_.batches_per_epoch = training_->batches_per_epoch();
    if (!held_out_) return;
    info_.held_out = held_out_->records_per_epoch();
    held_out_start_ = held_out_->save();
  }

  std::unique_ptr<data::ImageIterator> training_;
  std::unique_ptr<data::ImageIterator> held_out_;  // null: none
  data::State held_out_start_;
  DataInfo info_;
  int batch_;
  bool keeps_rest_;
  Share share_;
};

}  // namespace

Result<std::unique_ptr<BatchSource>> image_batches(const TrainOptions& options, const Share& share, Warn warn) {
  data::ImagePipelineOptions pipeline;
  pipeline.directory = options.data_dir;
  pipeline.batch = options.batch;
  pipeline.joint_batch = share.joint_batch;
  pipeline.shards = options.logical_shards;
  pipeline.image_size = options.image_size;
  pipeline.pixels = options.pixels;
  pipeline.rank = share.rank;
  pipeline.size = share.size;
  pipeline.threads = options.data_threads;
  pipeline.processes = share.local_size;
  pipeline.seed = options.seed;
  pipeline.shuffle_buffer = options.shuffle_buffer;
  pipeline.classes = options.classes;
  pipeline.image_key = options.image_key;
  pipeline.label_key = options.label_key;
  pipeline.label_offset = options.label_offset;
  pipeline.remainder = options.remainder;
  pipeline.allow_missing = options.allow_missing;
  pipeline.max_bad = options.max_bad;
  pipeline.warn = std::move(warn);
  XOE_ASSIGN(auto training, data::open_images(pipeline));
  if (training->multi_label())
    return failure(Code::kUnsupported, "{}: its images have several classes each; the trainer takes one class an image",
                   options.data_dir);

  pipeline.training = false;
  pipeline.remainder.reset();
  pipeline.joint_batch = 0;
  pipeline.epochs = 1;
  pipeline.classes = training->classes();           // 0: to_batch() checks the labels once they are known
  std::unique_ptr<data::ImageIterator> validation;  // none is no error
  if (data::has_split(pipeline)) {
    XOE_ASSIGN(validation, data::open_images(pipeline));
  }
  return std::make_unique<ImageBatches>(std::move(training), std::move(validation), options, share);
}

}  // namespace xoe::train
