// The sources of training images.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/shard_range.h"
#include "train/trainer/options.h"
#include "xoe/data/opened.h"
#include "xoe/status.h"

namespace xoe::train {

struct Batch {
  at::Tensor images;  // [count, 3, H, W], float32
  at::Tensor labels;  // [count], int64
  // Of data with epochs: which one, and the images' numbers in the data set. Empty: synthetic data.
  std::int64_t epoch = 0;
  std::int64_t left = 0;  // batches of the epoch that follow
  std::vector<std::int64_t> records = {};
  // Of this rank's mean loss in the mean over ranks, so that each image counts alike where ranks have different numbers
  // of them; 1: they have equal ones.
  double weight = 1;
  int shard = 0;  // which logical shard it is, where there are such
  std::int64_t count() const { return labels.size(0); }
};

// Cuts a batch of neighbouring logical shards apart; all shards together have `joint` images. The images of each have
// memory of their own: how tensors lie in memory may decide the bits of what is computed from them.
std::vector<Batch> cut_into_shards(const Batch& batch, std::int64_t joint, int shards, ShardRange range);

// Which part of the data a rank gets.
struct Share {
  int rank = 0;
  int size = 1;
  int local_size = 1;            // ranks of this host, which share its CPUs
  std::int64_t joint_batch = 0;  // images of all ranks in a pass; 0: options.batch of each
  bool operator==(const Share&) const = default;
};

struct DataInfo {
  int classes = 0;                     // 0: not known yet
  std::int64_t batches_per_epoch = 0;  // of this and of every rank; 0: no epochs
  std::int64_t held_out = 0;           // images for evaluation, all ranks together
};

// For all ranks to compare.
struct OpenedSplits {
  data::OpenedData training;
  data::OpenedData held_out;
};

// This rank's part of the data. One thread.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Goes on with another part. The files stay open; restore() comes next.
  virtual Status reshard(const Share& share) = 0;
  virtual const DataInfo& info() const noexcept = 0;
  // The number of classes; reads all records if only they tell.
  virtual Result<int> count_classes() = 0;
  // Tells a rank that has not counted them.
  virtual void set_classes(int classes) = 0;
  virtual OpenedSplits opened() const { return {}; }
  // The next batch of training images; repeats for ever.
  virtual Result<Batch> next() = 0;
  // Takes back a batch of next(), as it was, whose images are to come again after a restore().
  virtual void keep(const Batch& batch) = 0;
  // The position of next(), for restore() on the same rank of a group of the same size.
  virtual std::string save() const = 0;
  virtual Status restore(std::string_view position) = 0;
  // The epoch after the one that `position` is in the middle of; epochs count from 0. One that has not begun is its
  // own.
  virtual Result<std::int64_t> next_epoch(std::string_view position) const = 0;
  // next() gives the first batch of an epoch.
  virtual Status start_epoch(std::int64_t epoch) = 0;
  virtual std::int64_t skipped_images() const noexcept { return 0; }
  // A report of where the time of producing training images went, and what would help; may be empty.
  virtual std::string explain() const { return {}; }
  // Starts a pass over this rank's held-out images.
  virtual Status start_held_out() = 0;
  // The next held-out batch; nullopt at the end of the pass.
  virtual Result<std::optional<Batch>> next_held_out() = 0;
};

// Receives a line on the data at a time, on the training thread.
using Warn = std::function<void(std::string_view)>;

// A random batch, generated once, different on each rank, which lies on `device`.
std::unique_ptr<BatchSource> synthetic_batches(const TrainOptions& options, const Share& share, c10::Device device);
// As many as synthetic data have.
int synthetic_classes(const TrainOptions& options) noexcept;
// Images of any layout that data::open_images() reads; for evaluation its validation part, where there is one. `warn`
// must live as long as the source; empty: standard error.
Result<std::unique_ptr<BatchSource>> image_batches(const TrainOptions& options, const Share& share, Warn warn);

}  // namespace xoe::train
