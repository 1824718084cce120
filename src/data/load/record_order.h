// The order in which the records of a data set come, before ranks deal it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "data/source/image_source.h"
#include "xoe/data/stages.h"

namespace xoe::data {

struct RecordRef {
  std::int64_t epoch = 0;
  std::int64_t record = 0;

  friend bool operator==(const RecordRef&, const RecordRef&) = default;
};

struct OrderOptions {
  bool shuffle = true;
  std::size_t buffer = 0;  // records drawn from; at least all of them: any order is equally likely
  std::uint64_t seed = 0;
  bool by_file = false;  // each rank keeps to files of its own, as far as equal shares allow
};

// Every record once an epoch. Shuffled: groups come in an order drawn by (seed, epoch), then a buffer is drawn from;
// with a buffer of all records an O(1) permutation takes the place of both. By file: position p belongs to lane p
// modulo `size`, and each lane is a run of its own through the groups.
// What the order depends on besides epoch and number of ranks.
std::uint64_t order_fingerprint(const ImageSource& source, const OrderOptions& options);

CommonOrder<RecordRef> record_order(std::shared_ptr<const ImageSource> source, OrderOptions options);

}  // namespace xoe::data
