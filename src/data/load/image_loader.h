// Batches of images: map_and_batch() with a decoder at its heart.
#pragma once

#include <memory>
#include <vector>

#include "data/load/image_worker.h"
#include "data/load/record_order.h"
#include "data/source/image_source.h"
#include "xoe/data/images.h"
#include "xoe/data/map_and_batch.h"

namespace xoe::data {

struct LoaderRecipe {
  ImageRecipe image;
  int batch = 0;
  std::int64_t batches = 0;  // an epoch
  int processes = 1;         // on this host
  std::uint64_t order_fingerprint = 0;
  MapAndBatchOptions making;
};

class ImageLoader final : public ImageIterator {
 public:
  static Result<std::unique_ptr<ImageLoader>> open(std::shared_ptr<const ImageSource> source,
                                                   const StagePtr<Batch<RecordRef>>& upstream,
                                                   const LoaderRecipe& recipe);

  Result<std::optional<ImageBatch>> next() override;
  State save() const override;
  Status restore(State state) override;

  std::int64_t records_per_epoch() const override { return source_->records(); }
  std::int64_t batches_per_epoch() const override { return recipe_.batches; }
  int classes() const override { return recipe_.image.classes; }
  bool multi_label() const override { return source_->multi_label(); }
  std::int64_t skipped() const override { return tensors_->skipped(); }
  std::int64_t lost() const override { return source_->lost(); }
  std::uint64_t order_fingerprint() const override { return recipe_.order_fingerprint; }
  double waited_seconds() const override { return tensors_->stats().waited; }
  std::size_t memory_bytes() const override { return tensors_->memory_bytes(); }
  PipelineReport report() const override;
  std::vector<StageReport> stages() const override { return tensors_->stages(); }

 private:
  void mix_images(ImageBatch& batch);

  ImageLoader(std::shared_ptr<const ImageSource> source, const LoaderRecipe& recipe);

  std::shared_ptr<const ImageSource> source_;
  LoaderRecipe recipe_;
  std::vector<float> scratch_;  // of mix_images()
  std::vector<std::unique_ptr<ImageWorker>> workers_;
  std::unique_ptr<TensorIterator> tensors_;  // last: its threads use the workers
};

}  // namespace xoe::data
