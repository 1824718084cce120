// Stages that work on elements of any type.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "xoe/data/stage.h"

namespace xoe::data {

// What happens to elements that do not fill one batch on every rank.
enum class Remainder : std::uint8_t {
  kDrop,  // left out in this epoch
  kPad,   // filled up with elements from the epoch's beginning
  kKeep,  // short, or empty, last batches
};

// How `total` elements are dealt to ranks: which positions of the common order a rank takes, and how many batches it
// makes.
struct ShardPlan {
  std::int64_t elements = 0;  // that this rank takes: positions rank, rank + size, ...; past `total` they wrap (kPad)
  std::int64_t batches = 0;   // the same on every rank

  friend bool operator==(const ShardPlan&, const ShardPlan&) = default;
};
// REQUIRES: 0 <= rank < size, batch > 0, total >= 0.
ShardPlan plan_shard(std::int64_t total, int rank, int size, int batch, Remainder remainder);

// A uniform number that depends on the three keys alone: the source of all randomness here.
std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0) noexcept;

template <class T>
struct Batch {
  std::int64_t epoch = 0;
  std::int64_t index = 0;  // within the epoch
  std::vector<T> elements;
};

// The given elements, in their order, in every epoch.
template <class T>
StagePtr<T> from_vector(std::vector<T> elements);

// Draws from a buffer of `buffer` elements at random, by (seed, epoch). A buffer of at least size() shuffles perfectly;
// 0 and 1 keep the order. restore() replays the drawing, so this belongs in front of whatever is costly: shuffle
// positions, then read.
template <class T>
StagePtr<T> shuffle(StagePtr<T> upstream, std::size_t buffer, std::uint64_t seed);

// The elements that plan_shard() gives this rank. REQUIRES: upstream->size() is known.
template <class T>
StagePtr<T> shard(StagePtr<T> upstream, int rank, int size, int batch, Remainder remainder);

// Groups of `batch` elements; the last one of an epoch may be short. When fewer than `batches` come, empty ones follow.
template <class T>
StagePtr<Batch<T>> batch(StagePtr<T> upstream, int batch, std::int64_t batches = 0);

// Epochs one after the other, up to epoch `epochs` - 1, or endless when `epochs` is 0. An epoch without elements is an
// error.
template <class T>
StagePtr<T> repeat(StagePtr<T> upstream, std::int64_t epochs = 0);

// f(element), where f: const T& -> Result<U> is pure. Its error ends the iterator.
template <class U, class T>
StagePtr<U> map(StagePtr<T> upstream, std::function<Result<U>(const T&)> f);

// Runs the upstream in a thread of its own, up to `depth` elements ahead; 0: no thread.
template <class T>
StagePtr<T> prefetch(StagePtr<T> upstream, std::size_t depth);

}  // namespace xoe::data

#include "xoe/data/stages_inl.h"
