// map() and batch() in one: threads write each element where it belongs in the batch's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "xoe/data/report.h"
#include "xoe/data/stages.h"
#include "xoe/tensor.h"

namespace xoe::data {

// One tensor of an element.
struct TensorSpec {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // empty: a single number

  std::size_t bytes() const noexcept;  // of one element
};

// `count` elements; tensors[i] is [count, shape of spec i], contiguous, and may be written to. The memory is the
// batch's own for as long as a copy of its pointer lives, also after the iterator is gone.
struct TensorBatch {
  std::int64_t epoch = 0;
  std::int64_t index = 0;  // within the epoch
  std::int64_t left = -1;  // as in Batch
  int count = 0;
  std::vector<std::shared_ptr<void>> tensors;

  template <class T>
  T* data(std::size_t tensor) const noexcept {
    return static_cast<T*>(tensors[tensor].get());
  }
};

struct MapAndBatchOptions {
  int threads = 1;              // 0: next() does the work in its caller's thread; kAutoThreads: as many as the consumer
                                // needs, up to the CPUs that this process was given
  std::size_t depth = 2;        // batches in flight, 1 or more
  bool tune = false;            // adjust threads and depth to the consumer, up to these; kAutoThreads does so anyway
  std::size_t least_depth = 2;  // and from so many on
  OnError on_error = OnError::kFail;
  std::int64_t max_bad = kAutoBad;  // per epoch; one more is an error
  // Told of each element that is left out, in the order of the elements, by the caller of next(); may be empty.
  std::function<void(const Error& error)> left_out = {};
  // With kSkip: a bad element's place is taken by the next good one of its batch, so that batches stay full; else the
  // batch shrinks. A full batch without any good element is an error.
  bool keep_full = true;
  int processes = 1;  // ranks on this host: what kAutoThreads shares the CPUs with
  int cpus = 0;  // with tune: that all stages that tune themselves may use together; 0: any number, of kAutoThreads
                 // those given
  bool name_elements = true;  // in messages: "map_and_batch: element 17 of epoch 2: ..."
  bool waits = false;         // nothing is made before the first next() or restore()
};

// Writes the tensors of one element: places[i] has spec i's bytes. Pure, and called by several threads at a time, each
// with a `worker` number of its own (0 to threads - 1) for what it keeps from element to element.
template <class T>
using MapInto = std::function<Status(const T& element, std::span<void* const> places, int worker)>;

// An iterator of map_and_batch(): counts beside the batches.
class TensorIterator : public Iterator<TensorBatch> {
 public:
  virtual std::int64_t skipped() const = 0;  // bad elements left out so far; kept by save() and restore()
  virtual ThreadPoolStats stats() const = 0;
  virtual std::size_t memory_bytes() const = 0;  // upper bound of what batches in flight take

  // Visits each good element that was made for a batch in flight: `tensors` of the batch, which may be kept, and the
  // element's place in them.
  using Visit =
      std::function<void(std::int64_t epoch, std::span<const std::shared_ptr<void>> tensors, std::size_t place)>;
  // Makes no more; next() gives nothing from here on, until a restore(). Returns how many batches were in flight.
  virtual std::size_t end(const Visit& visit) = 0;
};

// `upstream` gives batches of small elements (positions, names, records): batch(), shard_batches(), or repeat() of
// either.
template <class T>
Result<std::unique_ptr<TensorIterator>> map_and_batch(const StagePtr<Batch<T>>& upstream, int batch,
                                                      const std::vector<TensorSpec>& specs, MapInto<T> f,
                                                      const MapAndBatchOptions& options = {}, std::int64_t epoch = 0);

namespace detail {

// Element `index` of `batch` into its places.
using MakeInto = std::function<Status(const void* batch, std::size_t index, std::span<void* const> places, int worker)>;
Result<std::unique_ptr<TensorIterator>> map_and_batch(const AnyStage& upstream, const BatchType& type, int batch,
                                                      const std::vector<TensorSpec>& specs, MakeInto make,
                                                      MapAndBatchOptions options, std::int64_t epoch);

}  // namespace detail

template <class T>
Result<std::unique_ptr<TensorIterator>> map_and_batch(const StagePtr<Batch<T>>& upstream, int batch,
                                                      const std::vector<TensorSpec>& specs, MapInto<T> f,
                                                      const MapAndBatchOptions& options, std::int64_t epoch) {
  return detail::map_and_batch(
      *upstream, detail::kBatchType<T>, batch, specs,
      [f = std::move(f)](const void* made, std::size_t index, std::span<void* const> places, int worker) {
        return f(static_cast<const Batch<T>*>(made)->elements[index], places, worker);
      },
      options, epoch);
}

}  // namespace xoe::data
