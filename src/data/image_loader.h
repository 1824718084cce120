// Makes batches of images on threads.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/image_worker.h"
#include "data/pixel_pool.h"
#include "xoe/data/images.h"

namespace xoe::data {

struct LoaderRecipe {
  ImageRecipe image;
  int batch = 0;
  int threads = 0;
  std::size_t depth = 1;  // batches in the making
  bool keep_full = true;  // replace bad images by good ones of the batch
  OnError on_error = OnError::kFail;
  std::int64_t max_bad = 0;
  // Of the whole pipeline, compared at restore: which images a position means.
  std::int64_t records = 0;
  std::int64_t batches = 0;
  std::int64_t joint_batch = 0;
};

// Threads take one image after the other, of the oldest unfinished batch first, and write it where it belongs: the
// order needs no queue, and a slow image holds up nothing until `depth` batches are full.
class ImageLoader final : public ImageIterator {
 public:
  ImageLoader(std::shared_ptr<const RecordIndex> index, std::unique_ptr<Iterator<Batch<RecordRef>>> upstream,
              const LoaderRecipe& recipe);
  ~ImageLoader() override;

  Result<std::optional<ImageBatch>> next() override;
  State save() const override;
  Status restore(State state) override;

  std::int64_t records_per_epoch() const override { return recipe_.records; }
  std::int64_t batches_per_epoch() const override { return recipe_.batches; }
  int classes() const override { return recipe_.image.classes; }
  std::int64_t skipped() const override { return skipped_; }
  double waited_seconds() const override { return waited_; }
  std::size_t memory_bytes() const override;

 private:
  struct Making {
    Batch<RecordRef> source;
    State after;
    std::shared_ptr<float> pixels;
    std::vector<Result<std::int64_t>> labels;  // by place; of a bad image its error
    std::size_t claimed = 0;
    std::size_t done = 0;

    bool complete() const { return done == labels.size(); }
  };
  using MakingPtr = std::shared_ptr<Making>;

  float* place(const Making& making, std::size_t i) const { return making.pixels.get() + i * image_floats_; }
  void start();
  void stop();
  void work(const std::stop_token& stop);
  MakingPtr claimable();
  // Takes the next batch of records; null at the end or on an error, which next() then returns.
  MakingPtr pull();
  Result<MakingPtr> oldest();
  Result<ImageBatch> finish(Making& making);
  Status account(const Making& making);
  Status check_same(State& state) const;

  std::shared_ptr<const RecordIndex> index_;
  std::unique_ptr<Iterator<Batch<RecordRef>>> upstream_;  // guarded by mutex_ while threads run
  LoaderRecipe recipe_;
  std::size_t image_floats_;
  PixelPool pool_;
  std::optional<ImageWorker> own_worker_;  // when there are no threads

  // Of the consumer.
  State delivered_;
  std::int64_t epoch_ = 0;
  std::int64_t skipped_ = 0;
  std::int64_t skipped_in_epoch_ = 0;
  double waited_ = 0;
  std::optional<Error> failed_;

  std::mutex mutex_;
  std::condition_variable_any more_room_;
  std::condition_variable oldest_done_;
  std::deque<MakingPtr> queue_;  // oldest first
  bool ended_ = false;           // the upstream gives no more: its end, or upstream_error_
  std::optional<Error> upstream_error_;
  std::vector<std::jthread> threads_;  // last: joined before what they use goes
};

}  // namespace xoe::data
