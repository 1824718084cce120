// Turns one record into one image of a batch.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "data/load/record_order.h"
#include "data/load/transform_image.h"
#include "data/source/image_source.h"
#include "xoe/data/images.h"
#include "xoe/data/map_and_batch.h"

namespace xoe::data {

// The options of a pipeline, and what open_images() derives from them and the data set.
struct ImagePlan {
  ImagePipelineOptions options;  // `classes` and `label_offset` are the data set's
  ImageTransform transform;      // as the options say
  MapAndBatchOptions batching;
  std::int64_t batches_per_epoch = 0;
  std::uint64_t order_fingerprint = 0;
};

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

// Reads and transforms records on one thread, whose buffers it keeps. One thread at a time; add_steps() by any.
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
  void add_steps(std::vector<StepReport>& steps) const;
  static std::vector<StepReport> no_steps();

 private:
  Status write_label(const ImageRecord& record, const Output& output) const;

  std::shared_ptr<const ImageSource> source_;
  const ImagePlan& plan_;
  std::string buffer_;
  RecordTransformer transformer_;
  StepClock read_;
  StepClock decode_;
};

}  // namespace xoe::data
