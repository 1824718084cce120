// Batches of images: map_and_batch() over records, with an ImageWorker for each thread.
#pragma once

#include <memory>
#include <vector>

#include "data/load/image_worker.h"
#include "data/load/record_order.h"
#include "data/source/image_source.h"
#include "xoe/data/images.h"
#include "xoe/data/map_and_batch.h"

namespace xoe::data {

class ImageLoader final : public ImageIterator {
 public:
  static Result<std::unique_ptr<ImageLoader>> open(std::shared_ptr<const ImageSource> source,
                                                   const StagePtr<Batch<RecordRef>>& upstream, ImagePlan plan);

  Result<std::optional<ImageBatch>> next() override;
  State save() const override;
  Status restore(State state) override;

  std::int64_t records_per_epoch() const override { return source_->records(); }
  std::int64_t batches_per_epoch() const override { return plan_.batches_per_epoch; }
  int classes() const override { return plan_.options.classes; }
  bool multi_label() const override { return source_->multi_label(); }
  std::int64_t skipped() const override { return tensors_->skipped(); }
  std::int64_t lost() const override { return source_->lost(); }
  std::uint64_t order_fingerprint() const override { return plan_.order_fingerprint; }
  double waited_seconds() const override { return tensors_->stats().waited; }
  std::size_t memory_bytes() const override { return tensors_->memory_bytes(); }
  PipelineReport report() const override;
  std::vector<StageReport> stages() const override { return tensors_->stages(); }

 private:
  ImageLoader(std::shared_ptr<const ImageSource> source, ImagePlan plan);

  void mix_images(ImageBatch& batch);

  std::shared_ptr<const ImageSource> source_;
  ImagePlan plan_;
  std::vector<float> scratch_;  // of mix_images()
  std::vector<std::unique_ptr<ImageWorker>> workers_;
  std::unique_ptr<TensorIterator> tensors_;  // last: its threads use the workers
};

}  // namespace xoe::data
