// Stages that work on elements of any type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "xoe/data/detail/core.h"
#include "xoe/data/on_error.h"
#include "xoe/data/stage.h"

namespace xoe::data {

// In place of a number of threads: as many as the consumer turns out to need, up to the CPUs that this process was
// given.
inline constexpr int kAutoThreads = -1;

// How a stage treats the last elements, when they do not fill a batch (shard_batches: a batch on every rank).
enum class Remainder : std::uint8_t {
  kDrop,  // left out in this epoch
  kPad,   // filled up with elements from the epoch's beginning
  kKeep,  // short, or empty, last batches
};

// How `total` elements are shared out among ranks: which positions of the common order a rank takes, and how many
// batches it makes.
struct ShardPlan {
  std::int64_t elements = 0;  // that this rank takes: positions rank, rank + size, ...; past `total` they wrap (kPad)
  std::int64_t batches = 0;   // the same on every rank

  friend bool operator==(const ShardPlan&, const ShardPlan&) = default;
};
// REQUIRES: 0 <= rank < size, batch > 0, total >= 0.
ShardPlan plan_shard(std::int64_t total, int rank, int size, int batch, Remainder remainder);
// The same for batches of `joint` elements of all ranks together, which `size` need not divide: then the first ranks
// have one element more in each than the others. REQUIRES: joint >= 1.
ShardPlan plan_joint_shard(std::int64_t total, int rank, int size, std::int64_t joint, Remainder remainder);
// Elements of this rank among `count` that ranks take in turn, rank 0 first.
std::int64_t share_of(std::int64_t count, int rank, int size) noexcept;

// A uniform number that depends on the three keys alone: the source of all randomness here.
std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0) noexcept;

template <class T>
struct Batch {
  std::int64_t epoch = 0;
  std::int64_t index = 0;  // within the epoch
  std::int64_t left = -1;  // batches of the epoch that follow, from shard_batches(); -1: not known
  std::vector<T> elements;
};
template <class T>
struct ElementBytes<Batch<T>> {
  static constexpr bool kKnown = ElementBytes<T>::kKnown;
  static std::int64_t of(const Batch<T>& batch) noexcept { return ElementBytes<std::vector<T>>::of(batch.elements); }
};

// ---- Sources

// The given elements, in their order, in every epoch.
template <class T>
StagePtr<T> from_vector(std::vector<T> elements) {
  const std::size_t count = elements.size();
  auto kept = std::make_shared<const std::vector<T>>(std::move(elements));
  if constexpr (std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>)
    return detail::typed<T>(detail::list(kElementType<T>, {kept, kept->data()}, count, nullptr));
  else
    return detail::typed<T>(detail::list(kElementType<T>, std::move(kept), count, detail::copy_at<T>));
}

// The numbers from 0 to count - 1.
StagePtr<std::int64_t> indices(std::int64_t count);

// The same in an order drawn by (seed, epoch), as if by a shuffle of all of them, in constant memory and with restore
// and skip in constant time: a keyed permutation (a Feistel network with cycle walking; Black and Rogaway 2002).
StagePtr<std::int64_t> shuffled_indices(std::int64_t count, std::uint64_t seed);

// ---- Selection and order of elements

// Draws from a buffer of `buffer` elements at random, by (seed, epoch). A buffer of at least size() shuffles perfectly;
// 0 and 1 keep the order. restore() repeats the draws, so shuffle what is cheap to make, such as positions, and read
// after it.
template <class T>
StagePtr<T> shuffle(StagePtr<T> upstream, std::size_t buffer, std::uint64_t seed) {
  return buffer <= 1 ? upstream : detail::typed<T>(detail::shuffle(std::move(upstream), buffer, seed));
}

// Elements rank, rank + size, ...: over all ranks each one once. Ranks may get one more or less than others: training
// in step needs shard_batches(). REQUIRES: 0 <= rank < size.
template <class T>
StagePtr<T> shard(StagePtr<T> upstream, int rank, int size) {
  return detail::typed<T>(detail::shard(std::move(upstream), rank, size));
}

struct ShardBatchesOptions {
  int rank = 0;
  int size = 1;
  int batch = 1;  // elements per rank
  Remainder remainder = Remainder::kDrop;
  std::int64_t joint = 0;  // elements of all ranks in a batch, see plan_joint_shard(); 0: size * batch
  // More than 0: a batch of all ranks consists of so many logical shards, one after the other, which differ by one
  // element at most; each rank takes neighbouring ones, as core/base/shard_range.h has it, in place of every size-th
  // element.
  int shards = 0;
};
// The order that `size` ranks share out among themselves. Most orders are the same for any number of ranks.
template <class T>
using CommonOrder = std::function<StagePtr<T>(int size)>;

// This rank's batches, equally many on every rank (plan_shard()). The position is the same on every rank, and may be
// restored on any number of ranks with any batch size: the rest of the epoch is shared out among those, so that each
// element still comes once. REQUIRES: the order's size() is known.
template <class T>
StagePtr<Batch<T>> shard_batches(CommonOrder<T> order, ShardBatchesOptions options) {
  return detail::typed<Batch<T>>(detail::shard_batches(std::move(order), detail::kBatchType<T>, options));
}
template <class T>
StagePtr<Batch<T>> shard_batches(StagePtr<T> upstream, ShardBatchesOptions options) {
  return shard_batches<T>(CommonOrder<T>([upstream = std::move(upstream)](int) { return upstream; }), options);
}

// The first `count` elements, or all but those.
template <class T>
StagePtr<T> take(StagePtr<T> upstream, std::int64_t count) {
  return detail::typed<T>(detail::slice(std::move(upstream), 0, std::max<std::int64_t>(count, 0)));
}
template <class T>
StagePtr<T> skip(StagePtr<T> upstream, std::int64_t count) {
  return detail::typed<T>(detail::slice(std::move(upstream), std::max<std::int64_t>(count, 0), -1));
}

// The elements for which `wanted` is true. It is pure, and called from one thread.
template <class T>
StagePtr<T> filter(StagePtr<T> upstream, std::function<Result<bool>(const T&)> wanted) {
  return detail::typed<T>(
      detail::filter(std::move(upstream), [wanted = std::move(wanted)](const void* element) -> Result<bool> {
        return wanted(*static_cast<const T*>(element));
      }));
}

// Epochs one after the other, up to epoch `epochs` - 1, or endless when `epochs` is 0. An epoch without elements is an
// error.
template <class T>
StagePtr<T> repeat(StagePtr<T> upstream, std::int64_t epochs = 0) {
  return detail::typed<T>(detail::repeat(std::move(upstream), epochs));
}

// Elements with the epoch and their number in it, from 0: what a function behind it needs to draw something new for an
// element in each epoch.
template <class T>
struct Numbered {
  std::int64_t epoch = 0;
  std::int64_t number = 0;
  T element;
};
template <class T>
struct ElementBytes<Numbered<T>> {
  static constexpr bool kKnown = ElementBytes<T>::kKnown;
  static std::int64_t of(const Numbered<T>& numbered) noexcept { return ElementBytes<T>::of(numbered.element); }
};
template <class T>
StagePtr<Numbered<T>> numbered(StagePtr<T> upstream) {
  return detail::typed<Numbered<T>>(
      detail::numbered(std::move(upstream), kElementType<Numbered<T>>, detail::number_next<T>));
}

// ---- Several stages as one

// Pairs, until one of the two ends.
template <class T, class U>
StagePtr<std::pair<T, U>> zip(StagePtr<T> first, StagePtr<U> second) {
  using Both = std::pair<T, U>;
  return detail::typed<Both>(
      detail::zip(std::move(first), std::move(second), kElementType<Both>, detail::pair_next<T, U>));
}

// One after the other.
template <class T>
StagePtr<T> concat(std::vector<StagePtr<T>> parts) {
  return detail::typed<T>(detail::concat(kElementType<T>, {parts.begin(), parts.end()}));
}

// Each next element from a part drawn by (seed, epoch) in proportion to `weights` (positive; one for each part). A part
// that ends is left out, so every element of every part comes once; repeat() parts that should go on.
template <class T>
// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved from, which the check does not see in templates
StagePtr<T> mix(std::vector<StagePtr<T>> parts, std::vector<double> weights, std::uint64_t seed) {
  return detail::typed<T>(detail::mix(kElementType<T>, {parts.begin(), parts.end()}, std::move(weights), seed));
}

// In place of a cycle_length: as many as the consumer turns out to need, up to 64.
inline constexpr int kAutoCycle = -1;
struct InterleaveOptions {
  int cycle_length = 10;  // stages that are open at a time; kAutoCycle needs threads and deterministic = false
  int block_length = 1;   // elements from each before the next one's turn
  int threads = 0;        // that read ahead; 0: next() reads; kAutoThreads: as many as the consumer needs
  int ahead = 64;         // elements read ahead from each, with threads
  // false: the stage gives the first element that is ready. Each still comes once, but no later stage may depend on the
  // order: a shuffle or a shard would give other elements after a restore or on another rank.
  bool deterministic = true;
  std::size_t memory_budget = 0;  // most bytes read ahead, where their size is known (ElementBytes); 0: 1 GiB
  int processes = 1;              // ranks on this host: what kAutoThreads shares the CPUs with
};
// Opens a stage for each element (a file, say) and takes turns among `cycle_length` of them. One that has ended is
// replaced by the next. The order depends on cycle_length and block_length, not on threads.
template <class U, class T>
StagePtr<U> interleave(StagePtr<T> upstream, std::function<Result<StagePtr<U>>(const T&)> open,
                       InterleaveOptions options = {}) {
  return detail::typed<U>(detail::interleave(
      std::move(upstream), kElementType<U>,
      [open = std::move(open)](const void* element) -> Result<AnyStagePtr> {
        auto stage = open(*static_cast<const T*>(element));
        if (!stage) return failure(stage.error());
        return AnyStagePtr(std::move(*stage));
      },
      options));
}

// Keeps all elements of the upstream's epoch 0 in memory, filled as they are first asked for, and gives those in every
// epoch. Shared by all iterators of the stage.
template <class T>
StagePtr<T> cache(StagePtr<T> upstream) {
  return detail::typed<T>(detail::cache(std::move(upstream), detail::copy_element<T>));
}

// The same in a TFRecord file: used when it is there, else written beside its place and renamed once an epoch was read
// to its end. It is not known whether a file that is there is of this upstream: choose another path for other data.
StagePtr<std::string> cache_file(StagePtr<std::string> upstream, std::string path);

// ---- Work

struct MapOptions {
  int threads = 0;        // that call the function at the same time; 0: the caller of next() does; kAutoThreads: as
                          // many as the consumer needs, up to the CPUs that this process was given
  std::size_t ahead = 0;  // elements in flight; 0: 4 per thread
  bool tune = false;      // adjust both to the consumer, up to these; kAutoThreads does so anyway
  OnError on_error = OnError::kFail;
  std::int64_t max_bad = kAutoBad;  // per iterator; one more is an error
  int processes = 1;                // ranks on this host: what kAutoThreads shares the CPUs with
  std::string name = "map";         // in reports
};
// f(element), where f: const T& -> Result<U> is pure. Any number of threads keeps the order. An error names the
// element and ends the iterator, or leaves that element out.
template <class U, class T>
// NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved from, which the check does not see in templates
StagePtr<U> map(StagePtr<T> upstream, std::function<Result<U>(const T&)> f, MapOptions options = {}) {
  return detail::typed<U>(detail::map(
      std::move(upstream), kElementType<U>,
      [f = std::move(f)](const void* element, Slot& made) -> Status {
        Result<U> answer = f(*static_cast<const T*>(element));
        if (!answer) return failure(answer.error());
        made.put(std::move(*answer));
        return {};
      },
      std::move(options)));
}

// Groups of `batch` elements.
template <class T>
StagePtr<Batch<T>> batch(StagePtr<T> upstream, int batch, Remainder remainder = Remainder::kKeep) {
  return detail::typed<Batch<T>>(detail::batch(std::move(upstream), detail::kBatchType<T>, batch, remainder));
}

// Runs the upstream in a thread of its own, up to `depth` elements ahead; 0: no thread; kAutoDepth: 2 at first, and
// more where the consumer takes in bursts, up to 64. With kAutoDepth the queue holds at most `memory_budget` bytes (and
// always one element) where their size is known (ElementBytes); 0: 1 GiB.
inline constexpr std::size_t kAutoDepth = static_cast<std::size_t>(-1);
template <class T>
StagePtr<T> prefetch(StagePtr<T> upstream, std::size_t depth, std::size_t memory_budget = 0) {
  return depth == 0 ? upstream : detail::typed<T>(detail::prefetch(std::move(upstream), depth, memory_budget));
}

// Copies elements to a device ahead of time: `copy` runs in a thread of its own, up to `depth` copies ahead, so the
// copy of one batch runs beside the computation on another.
template <class U, class T>
StagePtr<U> to_device(StagePtr<T> upstream, std::function<Result<U>(const T&)> copy, std::size_t depth = 2) {
  return map<U, T>(std::move(upstream), std::move(copy),
                   {.threads = 1, .ahead = std::max<std::size_t>(depth, 1), .name = "to_device"});
}

}  // namespace xoe::data
