// Included by map_and_batch.h: how it works.
#pragma once

#include <string>
#include <utility>

#include "xoe/data/detail/iterator_base_inl.h"
#include "xoe/data/map_and_batch.h"

namespace xoe::data {
namespace detail {

// A batch in the making, whatever it is made from.
class BatchJob : public Job {
 public:
  BatchJob(std::size_t tasks, std::int64_t of_epoch, std::int64_t number)
      : Job(tasks), epoch(of_epoch), index(number), errors(tasks) {}

  std::int64_t epoch;
  std::int64_t index;
  State after;  // of the upstream
  std::optional<Error> upstream_error;
  std::vector<std::shared_ptr<void>> tensors;
  std::vector<std::optional<Error>> errors;  // by place
};

// Everything of map_and_batch() that does not depend on the elements' type.
class BatchMaker : public IteratorBase<TensorBatch, TensorIterator> {
 public:
  BatchMaker(int batch, std::vector<TensorSpec> specs, MapAndBatchOptions options);

  State save() const override;
  std::int64_t skipped() const override { return skipped_; }
  ThreadPoolStats stats() const override { return pool_->stats(); }
  std::size_t memory_bytes() const override;

 protected:
  // Once the derived object stands; close() before any of it goes.
  void open(State start);
  void close() { pool_.reset(); }

  virtual Result<std::unique_ptr<BatchJob>> pull() = 0;  // null: the end
  virtual Status make(BatchJob& job, std::size_t task, std::span<void* const> places, int worker) = 0;
  virtual Status restore_upstream(State state) = 0;

  Next<TensorBatch> produce() override;
  Status resume(State state) override;
  void describe(StageReport& mine) const override;

  MapAndBatchOptions options_;

 private:
  std::unique_ptr<Job> pull_job();
  Result<std::unique_ptr<BatchJob>> pull_batch();
  void make_element(BatchJob& job, std::size_t task, int worker);
  Status account(const BatchJob& job);
  Result<TensorBatch> finish(BatchJob& job);
  void* place(const BatchJob& job, std::size_t tensor, std::size_t element) const;

  std::size_t batch_;
  std::vector<std::size_t> bytes_;  // of one element, by tensor
  std::vector<MemoryPool> pools_;
  bool ended_ = false;  // of whoever pulls

  // Of the consumer.
  State delivered_;
  std::int64_t epoch_ = 0;
  std::int64_t skipped_ = 0;
  std::int64_t skipped_in_epoch_ = 0;
  std::unique_ptr<OrderedThreadPool> pool_;
};

template <class T>
class MapAndBatch final : public BatchMaker {
 public:
  MapAndBatch(std::unique_ptr<Iterator<Batch<T>>> upstream, int batch, std::vector<TensorSpec> specs, MapInto<T> f,
              MapAndBatchOptions options)
      : BatchMaker(batch, std::move(specs), options), upstream_(std::move(upstream)), f_(std::move(f)) {
    open(upstream_->save());
  }
  ~MapAndBatch() override { close(); }

 private:
  struct Made final : BatchJob {
    Made(Batch<T> from, std::size_t tasks)
        : BatchJob(tasks, from.epoch, from.index), elements(std::move(from.elements)) {}
    std::vector<T> elements;
  };

  Result<std::unique_ptr<BatchJob>> pull() override {
    auto source = upstream_->next();
    if (!source) return failure(source.error());
    if (!*source) return nullptr;
    const std::size_t tasks = (*source)->elements.size();
    auto job = std::make_unique<Made>(std::move(**source), tasks);
    job->after = upstream_->save();
    return job;
  }
  Status make(BatchJob& job, std::size_t task, std::span<void* const> places, int worker) override {
    const T& element = static_cast<Made&>(job).elements[task];
    const auto call = [&](const T& given) { return f_(given, places, worker); };
    if (!options_.name_elements) return caught([&] { return call(element); });
    return guarded<void>("map_and_batch: batch " + std::to_string(job.index), job.epoch,
                         static_cast<std::int64_t>(task), call, element);
  }
  Status restore_upstream(State state) override { return upstream_->restore(std::move(state)); }

  std::vector<StageReport> inputs() const override { return upstream_->stages(); }

  std::unique_ptr<Iterator<Batch<T>>> upstream_;
  MapInto<T> f_;
};

// Refuses what no batch could be made with.
Status check_map_and_batch(int batch, const std::vector<TensorSpec>& specs, const MapAndBatchOptions& options);

}  // namespace detail

template <class T>
Result<std::unique_ptr<TensorIterator>> map_and_batch(const StagePtr<Batch<T>>& upstream, int batch,
                                                      std::vector<TensorSpec> specs, MapInto<T> f,
                                                      MapAndBatchOptions options, std::int64_t epoch) {
  if (auto checked = detail::check_map_and_batch(batch, specs, options); !checked) return failure(checked.error());
  auto iterator = upstream->iterate(epoch);
  if (!iterator) return failure(iterator.error());
  return std::make_unique<detail::MapAndBatch<T>>(std::move(*iterator), batch, std::move(specs), std::move(f), options);
}

}  // namespace xoe::data
