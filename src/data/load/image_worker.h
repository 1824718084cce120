// Turns one record into one image of a batch.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "data/load/make_image.h"
#include "data/load/record_order.h"
#include "data/source/image_source.h"
#include "xoe/data/images.h"

namespace xoe::data {

struct ImageRecipe {
  ImageMaking making;
  std::uint64_t seed = 0;
  int classes = 0;
  int label_offset = 1;
  int rank = 0;
};

// One step's work, written by one thread and read by any.
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

// What a thread needs to make images: keeps its buffers from image to image. One thread at a time; steps() by any.
class ImageWorker {
 public:
  ImageWorker(std::shared_ptr<const ImageSource> source, ImageRecipe recipe)
      : source_(std::move(source)), recipe_(recipe) {}

  struct Places {
    void* pixels = nullptr;         // of one image
    std::int64_t* label = nullptr;  // null: there are targets
    float* targets = nullptr;       // [classes]
  };
  // Errors name the record.
  Status make(const RecordRef& ref, const Places& places);

  // Adds what this worker did so far to reports of "read" and "decode, resize".
  void add_steps(std::vector<StepReport>& steps) const;
  static std::vector<StepReport> no_steps();

 private:
  Status label(const ImageRecord& record, const Places& places) const;

  std::shared_ptr<const ImageSource> source_;
  ImageRecipe recipe_;
  std::string buffer_;
  ImageTools tools_;
  StepClock read_;
  StepClock decode_;
};

}  // namespace xoe::data
