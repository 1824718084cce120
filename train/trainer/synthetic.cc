#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "train/trainer/batches.h"

namespace xoe::train {
namespace {

class SyntheticBatches : public BatchSource {
 public:
  SyntheticBatches(const TrainOptions& options, int rank, c10::Device device) {
    info_.classes = options.classes > 0 ? options.classes : 1000;
    auto random = at::detail::createCPUGenerator(options.seed * 7919 + static_cast<std::uint64_t>(rank));
    batch_.images =
        at::randn({options.batch, 3, options.image_size.height, options.image_size.width}, random).to(device);
    batch_.labels = at::randint(info_.classes, {options.batch}, random, at::kLong).to(device);
  }

  const DataInfo& info() const noexcept override { return info_; }
  Result<int> count_classes() override { return info_.classes; }
  void set_classes(int classes) override { info_.classes = classes; }
  Result<Batch> next() override { return batch_; }
  std::string save() const override { return {}; }
  Status restore(std::string_view) override { return {}; }
  Result<std::int64_t> next_epoch(std::string_view) const override { return 0; }
  Status start_epoch(std::int64_t) override { return {}; }
  Status start_held_out() override { return {}; }
  Result<std::optional<Batch>> next_held_out() override { return std::nullopt; }

 private:
  DataInfo info_;
  Batch batch_;
};

}  // namespace

std::unique_ptr<BatchSource> synthetic_batches(const TrainOptions& options, int rank, c10::Device device) {
  return std::make_unique<SyntheticBatches>(options, rank, device);
}

}  // namespace xoe::train
