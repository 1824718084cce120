#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "train/trainer/batches.h"
#include "xoe/data/stages.h"

namespace xoe::train {
namespace {

class SyntheticBatches : public BatchSource {
 public:
  SyntheticBatches(const TrainOptions& options, const Share& share, c10::Device device)
      : options_(options), device_(device) {
    info_.classes = synthetic_classes(options);
    draw(share);
  }

  Status reshard(const Share& share) override {
    draw(share);
    return {};
  }

  const DataInfo& info() const noexcept override { return info_; }
  Result<int> count_classes() override { return info_.classes; }
  void set_classes(int classes) override { info_.classes = classes; }
  Result<Batch> next() override { return batch_; }
  void keep(const Batch&) override {}
  std::string save() const override { return {}; }
  Status restore(std::string_view) override { return {}; }
  Result<std::int64_t> next_epoch(std::string_view) const override { return 0; }
  Status start_epoch(std::int64_t) override { return {}; }
  Status start_held_out() override { return {}; }
  Result<std::optional<Batch>> next_held_out() override { return std::nullopt; }

 private:
  void draw(const Share& share) {
    if (options_.logical_shards > 0) {
      // The batch of each shard is drawn by itself.
      const ShardRange mine = shards_of_rank(options_.logical_shards, share.rank, share.size);
      std::vector<at::Tensor> images, labels;
      for (int shard = mine.begin; shard < mine.end; ++shard) {
        const Batch one = batch_of(options_.batch, shard);
        images.push_back(one.images);
        labels.push_back(one.labels);
      }
      batch_ = {.images = at::cat(images), .labels = at::cat(labels)};
      return;
    }
    const std::int64_t count =
        share.joint_batch > 0 ? data::share_of(share.joint_batch, share.rank, share.size) : options_.batch;
    batch_ = batch_of(count, share.rank);
    if (share.joint_batch > 0)
      batch_.weight = static_cast<double>(count * share.size) / static_cast<double>(share.joint_batch);
  }

  Batch batch_of(std::int64_t count, int stream) const {
    auto random = at::detail::createCPUGenerator(options_.seed * 7919 + static_cast<std::uint64_t>(stream));
    const auto images = at::randn({count, 3, options_.image_size.height, options_.image_size.width}, random);
    return {.images = images.to(device_), .labels = at::randint(info_.classes, {count}, random, at::kLong).to(device_)};
  }

  TrainOptions options_;
  c10::Device device_;
  DataInfo info_;
  Batch batch_;
};

}  // namespace

int synthetic_classes(const TrainOptions& options) noexcept { return options.classes > 0 ? options.classes : 1000; }

std::unique_ptr<BatchSource> synthetic_batches(const TrainOptions& options, const Share& share, c10::Device device) {
  return std::make_unique<SyntheticBatches>(options, share, device);
}

}  // namespace xoe::train
