// The order in which the records of a data set come, before it is sharded over the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "data/source/image_source.h"
#include "xoe/data/images.h"
#include "xoe/data/stages.h"

namespace xoe::data {

struct RecordRef {
  std::int64_t epoch = 0;
  std::int64_t record = 0;

  friend bool operator==(const RecordRef&, const RecordRef&) = default;
};

// Every record once an epoch. When training, the groups come in an order drawn by (seed, epoch), and records are drawn
// from a buffer of shuffle_buffer of them; with a buffer of all records an O(1) permutation replaces both. With
// shard_by_file, position p belongs to lane p modulo the number of ranks, and each lane runs through its own groups.
CommonOrder<RecordRef> record_order(std::shared_ptr<const ImageSource> source, const ImagePipelineOptions& options);

// Equal for equal orders, whatever epoch and number of ranks.
std::uint64_t order_fingerprint(const ImageSource& source, const ImagePipelineOptions& options);

}  // namespace xoe::data
