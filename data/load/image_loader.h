// Batches of images: map_and_batch() over records, with an ImageWorker for each thread.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "data/load/bad_images.h"
#include "data/load/made_images.h"
#include "data/load/record_order.h"
#include "data/load/transform_image.h"
#include "data/source/image_source.h"
#include "xoe/data/images.h"
#include "xoe/data/map_and_batch.h"

namespace xoe::data {

// Tells options.warn, or standard error.
void warn(const ImagePipelineOptions& options, const std::string& line);

// The options of a pipeline, and what open_images() derives from them and the data set.
struct ImagePlan {
  ImagePipelineOptions options;  // `classes` is the data set's; 0: not known
  ImageTransform transform;      // as the options say
  MapAndBatchOptions batching;
  Remainder remainder = Remainder::kDrop;
  int wanted_batch = 0;    // where there is no joint batch
  int wanted_threads = 0;  // kAutoThreads: options.threads is what that came to
  std::int64_t batches_per_epoch = 0;
  std::uint64_t order_fingerprint = 0;
  std::uint64_t files_fingerprint = 0;
};

// Plans what depends on the rank and the number of ranks: batches, threads and batches in flight. `invalid_argument`:
// fewer records than a batch on all ranks needs.
Status plan_for_rank(ImagePlan& plan, std::int64_t records);

// Time and volume of one step, written by one thread and read by any.
class StepClock {
 public:
  void add(double seconds, std::size_t bytes) noexcept {
    seconds_.store(seconds_.load(std::memory_order_relaxed) + seconds, std::memory_order_relaxed);
    count_.store(count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    bytes_.store(bytes_.load(std::memory_order_relaxed) + static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }
  void add_to(StepReport& report) const noexcept {
    report.seconds += seconds_.load(std::memory_order_relaxed);
    report.count += count_.load(std::memory_order_relaxed);
    report.bytes += bytes_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<double> seconds_ = 0;
  std::atomic<std::int64_t> count_ = 0;
  std::atomic<std::int64_t> bytes_ = 0;
};

// Turns one record into one image of a batch, on one thread, whose buffers it keeps. One thread at a time; add_steps()
// by any.
class ImageWorker {
 public:
  // `plan` must outlive the worker.
  ImageWorker(std::shared_ptr<const ImageSource> source, const ImagePlan& plan)
      : source_(std::move(source)), plan_(plan) {}

  // Where one image of a batch is written.
  struct Output {
    void* pixels = nullptr;
    std::int64_t* label = nullptr;  // null: there are targets
    float* targets = nullptr;       // [classes]
  };
  // Errors name the record.
  Status run(const RecordRef& ref, const Output& output);

  // Adds the work of this worker so far to reports of "read" and "decode, resize".
  void add_steps(std::vector<StepReport>& steps) const {
    read_.add_to(steps[0]);
    decode_.add_to(steps[1]);
  }
  static std::vector<StepReport> no_steps() { return {{.name = "read"}, {.name = "decode, resize"}}; }

 private:
  Status write_label(const ImageRecord& record, const Output& output) const;

  std::shared_ptr<const ImageSource> source_;
  const ImagePlan& plan_;
  std::string buffer_;
  RecordTransformer transformer_;
  StepClock read_;
  StepClock decode_;
};

class ImageLoader final : public ImageIterator {
 public:
  static Result<std::unique_ptr<ImageLoader>> open(std::shared_ptr<const ImageSource> source, ImagePlan plan);

  ~ImageLoader() override { warn_of_skipped(); }

  Result<std::optional<ImageBatch>> next() override;
  State save() const override;
  Status restore(State state) override;
  Status start_epoch(std::int64_t epoch) override;
  Status reshard(int rank, int size, int processes, std::int64_t joint_batch) override;
  void keep(const ImageBatch& batch) override;

  std::int64_t records_per_epoch() const override { return source_->records(); }
  std::int64_t batches_per_epoch() const override { return plan_.batches_per_epoch; }
  int classes() const override { return plan_.options.classes > 0 ? plan_.options.classes : counted_; }
  Result<int> count_classes() override;
  bool multi_label() const override { return source_->multi_label(); }
  void warn_of_skipped() override;
  std::int64_t skipped() const override { return tensors_->skipped(); }
  std::int64_t lost() const override { return source_->lost(); }
  std::int64_t missing() const override { return source_->missing(); }
  OpenedData opened() const override;
  std::uint64_t order_fingerprint() const override { return plan_.order_fingerprint; }
  double waited_seconds() const override { return tensors_->stats().waited; }
  std::size_t memory_bytes() const override { return tensors_->memory_bytes(); }
  PipelineReport report() const override;
  std::vector<StageReport> stages() const override { return tensors_->stages(); }

 private:
  ImageLoader(std::shared_ptr<const ImageSource> source, ImagePlan plan);

  // Makes workers and threads as the plan says.
  Status start();
  bool mixes() const noexcept;
  void mix_images(ImageBatch& batch);
  void mix_part(ImageBatch& batch, int stream, int begin, int count);
  // On all ranks together.
  std::int64_t images_of_a_batch() const noexcept;
  bool take_made(const RecordRef& ref, std::span<void* const> places);
  Error explain_bad(const Error& error) const;

  std::shared_ptr<const ImageSource> source_;
  ImagePlan plan_;
  std::vector<float> scratch_;  // of mix_images()
  BadImages bad_;               // that were left out
  int counted_ = 0;             // by count_classes(); the workers go by the plan
  std::vector<TensorSpec> specs_;
  MadeImages made_;              // for batches that were not used
  std::int64_t made_until_ = 0;  // elements of the order, from the position on, among which theirs are
  std::vector<std::unique_ptr<ImageWorker>> workers_;
  State first_;                              // before the first batch
  std::unique_ptr<TensorIterator> tensors_;  // last: its threads use the workers
};

}  // namespace xoe::data
