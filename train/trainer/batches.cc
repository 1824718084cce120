#include "train/trainer/batches.h"

namespace xoe::train {

std::vector<Batch> cut_into_shards(const Batch& batch, std::int64_t joint, int shards, ShardRange range) {
  const std::int64_t first = elements_of_shards(joint, shards, range).begin;
  std::vector<Batch> parts;
  for (int shard = range.begin; shard < range.end; ++shard) {
    const auto [begin, end] = elements_of_shards(joint, shards, {shard, shard + 1});
    Batch part{.images = batch.images.slice(0, begin - first, end - first).clone(),
               .labels = batch.labels.slice(0, begin - first, end - first).clone(),
               .epoch = batch.epoch,
               .left = batch.left};
    part.shard = shard;
    if (!batch.records.empty())
      part.records = {batch.records.begin() + (begin - first), batch.records.begin() + (end - first)};
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace xoe::train
