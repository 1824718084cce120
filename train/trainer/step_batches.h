// The batches of each step of a run, and where in the data they end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/trainer/batches.h"
#include "train/trainer/options.h"
#include "train/trainer/setup.h"
#include "xoe/status.h"

namespace xoe::train {

class StepBatches {
 public:
  // `setup` and `options` outlive this. resizes: ranks of another world may go on from here.
  StepBatches(Setup& setup, const TrainOptions& options, int rank, int size, bool resizes)
      : setup_(setup),
        options_(options),
        rank_(rank),
        shards_(shards_of_rank(options.logical_shards, rank, size)),
        keeps_position_(resizes || !options.checkpoint_dir.empty()) {}

  // Goes on in the data at a position() of an earlier run.
  Status restore(std::string position);
  // Goes on with the epoch after that position, and returns its number.
  Result<std::int64_t> start_next_epoch(const std::string& position);

  // Notes the position, and reads the batches of the next step, which get() then has.
  Status fetch();
  // One for each pass: with logical shards for each of this rank's.
  const std::vector<Batch>& get() const noexcept { return batches_; }
  // Gives the batches back to the data, which have them again after a restore().
  void keep() const {
    for (const Batch& batch : read_) setup_.data->keep(batch);
  }

  void note_position();
  // After the batches of all finished steps; empty where it is not kept.
  const std::string& position() const noexcept { return position_; }

 private:
  Result<Batch> next_batch();

  Setup& setup_;
  const TrainOptions& options_;
  int rank_;
  ShardRange shards_;
  bool keeps_position_;
  std::vector<Batch> read_;  // as the data gave them
  std::vector<Batch> batches_;
  std::string position_;
};

}  // namespace xoe::train
