#include "xoe/data/map_and_batch.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/text.h"
#include "data/stages/iterator_base.h"
#include "data/tune/tuning.h"
#include "xoe/data/memory_pool.h"
#include "xoe/data/ordered_thread_pool.h"

namespace xoe::data {

std::size_t TensorSpec::bytes() const noexcept {
  std::size_t bytes = dtype_size(dtype);
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

namespace detail {
namespace {

constexpr std::size_t kMaxTensors = 16;
constexpr std::int64_t kMaxBatchBytes = std::int64_t{1} << 40;

// Refuses what no batch could be made with.
Status check(int batch, const std::vector<TensorSpec>& specs, const MapAndBatchOptions& options) {
  if (batch < 1 || specs.empty() || specs.size() > kMaxTensors)
    return failure(Code::kInvalidArgument, "map_and_batch: batch {} (1 or more) of {} tensors (1 to {})", batch,
                   specs.size(), kMaxTensors);
  if (options.threads < kAutoThreads || options.depth < 1)
    return failure(Code::kInvalidArgument,
                   "map_and_batch: threads {} (0 or more, or kAutoThreads), depth {} (1 or more)", options.threads,
                   options.depth);
  for (const TensorSpec& spec : specs) {
    auto room = kMaxBatchBytes / batch / static_cast<std::int64_t>(std::max<std::size_t>(dtype_size(spec.dtype), 1));
    for (const std::int64_t extent : spec.shape) {
      if (extent < 0 || extent > room)
        return failure(Code::kInvalidArgument, "map_and_batch: a tensor with {} as one of its extents", extent);
      room /= std::max<std::int64_t>(extent, 1);
    }
  }
  return {};
}

// A batch on its way: one task writes one element into its place in the tensors.
class BatchJob final : public Job {
 public:
  explicit BatchJob(const ElementType& type) : Job(0), source(type) {}

  // `source` is there.
  void start(const BatchInfo& batch) {
    info = batch;
    errors.resize(batch.size);
    set_tasks(batch.size);
  }

  ElementBox source;  // the Batch<T>
  BatchInfo info = {};
  State after;  // of the upstream
  std::optional<Error> upstream_error;
  std::vector<std::shared_ptr<void>> tensors;
  std::vector<std::optional<Error>> errors;  // by place
};

class BatchMaker final : public Produces<BatchMaker> {
 public:
  BatchMaker(AnyIteratorPtr upstream, const BatchType& type, int batch, const std::vector<TensorSpec>& specs,
             MakeInto make, MapAndBatchOptions options)
      : Produces("map_and_batch", kElementType<TensorBatch>),
        upstream_(std::move(upstream)),
        batch_type_(type),
        make_(std::move(make)),
        options_(std::move(options)),
        batch_(static_cast<std::size_t>(batch)),
        delivered_(upstream_->save()) {
    resolve_bad_limit(options_);
    const bool automatic = options_.threads == kAutoThreads;
    options_.threads = most_threads(options_.threads, options_.processes);
    for (const TensorSpec& spec : specs) {
      bytes_.push_back(spec.bytes());
      memory_.emplace_back(std::max<std::size_t>(spec.bytes() * batch_, 1), options_.depth + 1);
    }
    pool_ = std::make_unique<OrderedThreadPool>(
        ThreadPoolOptions{.threads = options_.threads,
                          .depth = options_.depth,
                          .tune = options_.tune || automatic,
                          .least_depth = options_.least_depth,
                          .cpus = automatic ? options_.threads : options_.cpus,
                          .name = "map_and_batch",
                          .waits = options_.waits},
        [this] { return pull_job(); },
        [this](Job& job, std::size_t task, int worker) { make_element(static_cast<BatchJob&>(job), task, worker); });
  }

  std::int64_t skipped() const { return skipped_; }
  ThreadPoolStats stats() const { return pool_->stats(); }
  std::size_t memory_bytes() const {
    std::size_t bytes = 0;
    for (const MemoryPool& pool : memory_) bytes += pool.block_bytes();
    return bytes * (options_.threads == 0 ? 1 : options_.depth + 1);
  }

  std::size_t end(const TensorIterator::Visit& visit) {
    const auto jobs = pool_->end();
    for (const std::unique_ptr<Job>& one : jobs) {
      const auto& job = static_cast<const BatchJob&>(*one);
      for (std::size_t place = 0; place < job.done(); ++place)
        if (!job.errors[place]) visit(job.info.at.epoch, job.tensors, place);
    }
    return jobs.size();
  }

  Result<bool> produce(Slot& slot) override {
    const std::unique_ptr<Job> taken = pool_->take();
    if (taken == nullptr) return false;
    auto& job = static_cast<BatchJob&>(*taken);
    if (job.upstream_error) return failure(*job.upstream_error);
    XOE_TRY(count_bad(job));
    XOE_ASSIGN(TensorBatch batch, finish(job));
    delivered_ = std::move(job.after);
    slot.put(std::move(batch));
    return true;
  }
  State save() const override {
    State state = delivered_;
    state.push("batches.epoch", epoch_);
    state.push("batches.skipped_in_epoch", skipped_in_epoch_);
    state.push("batches.skipped", skipped_);
    return state;
  }

 private:
  std::vector<StageReport> inputs() const override { return upstream_->stages(); }
  void describe(StageReport& mine) const override {
    const std::int64_t elements = pool_->stats().tasks;
    for (const std::size_t bytes : bytes_) mine.bytes += elements * static_cast<std::int64_t>(bytes);
    pool_->report(mine);
  }

  Status resume(State state) override {
    XOE_ASSIGN(const auto skipped, state.pop("batches.skipped"));
    XOE_ASSIGN(const auto skipped_in_epoch, state.pop("batches.skipped_in_epoch"));
    XOE_ASSIGN(const auto epoch, state.pop("batches.epoch"));
    delivered_ = state;
    Status restored;
    pool_->restart([&] {
      ended_ = false;
      restored = caught([&] { return upstream_->restore(std::move(state)); });
    });
    if (!restored) return restored;
    skipped_ = skipped;
    skipped_in_epoch_ = skipped_in_epoch;
    epoch_ = epoch;
    return {};
  }

  std::unique_ptr<Job> pull_job() {
    if (ended_) return nullptr;
    auto job = std::make_unique<BatchJob>(batch_type_.type);
    const auto pulled = caught([&] { return pull(*job); });
    ended_ = !pulled || !*pulled;
    if (pulled && !*pulled) return nullptr;
    if (!pulled) job->upstream_error = pulled.error();
    return job;
  }
  Result<bool> pull(BatchJob& job) {
    XOE_ASSIGN(const bool there, job.source.pull(*upstream_));
    if (!there) return false;
    job.after = upstream_->save();
    const BatchInfo info = batch_type_.info(job.source.get());
    if (info.size > batch_)
      return failure(Code::kInvalidArgument, "map_and_batch: a batch of {} where {} fit", info.size, batch_);
    for (MemoryPool& pool : memory_) job.tensors.push_back(pool.take());
    job.start(info);
    return true;
  }
  void make_element(BatchJob& job, std::size_t index, int worker) const {
    std::array<void*, kMaxTensors> places = {};
    for (std::size_t tensor = 0; tensor < bytes_.size(); ++tensor) places[tensor] = place(job, tensor, index);
    const Status made = caught([&] { return make_(job.source.get(), index, {places.data(), bytes_.size()}, worker); });
    if (made) return;
    job.errors[index] = made.error();
    if (!options_.name_elements) return;
    job.errors[index] = element_failure(fmt::format("map_and_batch: batch {}", job.info.at.index), job.info.at.epoch,
                                        static_cast<std::int64_t>(index), made.error())
                            .value();
  }
  void* place(const BatchJob& job, std::size_t tensor, std::size_t element) const {
    return static_cast<char*>(job.tensors[tensor].get()) + element * bytes_[tensor];
  }

  Status count_bad(const BatchJob& job) {
    if (job.info.at.epoch != epoch_) {
      epoch_ = job.info.at.epoch;
      skipped_in_epoch_ = 0;
    }
    for (const auto& error : job.errors) {
      if (!error) continue;
      if (options_.on_error == OnError::kFail || !may_skip(*error)) return failure(*error);
      ++skipped_;
      if (++skipped_in_epoch_ > options_.max_bad)
        return failure(Code::kDataLoss, "{} in epoch {}, more than the {} allowed by max_bad; the last one: {}",
                       xoe::counted(skipped_in_epoch_, "bad record"), epoch_, options_.max_bad, error->message());
      if (options_.left_out) options_.left_out(*error);
    }
    return {};
  }
  // Bad elements are replaced by the next good one, or closed up.
  Result<TensorBatch> finish(BatchJob& job) const {
    const std::size_t places = job.tasks();
    std::vector<std::size_t> good;
    for (std::size_t i = 0; i < places; ++i)
      if (!job.errors[i]) good.push_back(i);
    if (options_.keep_full && good.empty() && places > 0)
      return failure(Code::kDataLoss, "all {} elements of a batch are bad; the last one: {}", places,
                     job.errors.back()->message());
    const std::size_t count = options_.keep_full ? places : good.size();
    for (std::size_t to = 0; to < count && good.size() < places; ++to) {
      std::size_t from = options_.keep_full ? to : good[to];
      while (job.errors[from]) from = (from + 1) % places;
      for (std::size_t tensor = 0; tensor < bytes_.size() && from != to; ++tensor)
        std::memcpy(place(job, tensor, to), place(job, tensor, from), bytes_[tensor]);
    }
    return TensorBatch{.epoch = job.info.at.epoch,
                       .index = job.info.at.index,
                       .left = job.info.at.left,
                       .count = static_cast<int>(count),
                       .tensors = std::move(job.tensors)};
  }

  AnyIteratorPtr upstream_;  // of the thread that pulls
  bool ended_ = false;       // the same
  const BatchType& batch_type_;
  const MakeInto make_;
  MapAndBatchOptions options_;
  const std::size_t batch_;
  std::vector<std::size_t> bytes_;  // of one element, by tensor
  std::vector<MemoryPool> memory_;

  // Of the consumer.
  State delivered_;
  std::int64_t epoch_ = 0;
  std::int64_t skipped_ = 0;
  std::int64_t skipped_in_epoch_ = 0;
  std::unique_ptr<OrderedThreadPool> pool_;  // last: its threads end before what they use goes
};

class TypedBatchMaker final : public TypedIterator<TensorBatch, TensorIterator> {
 public:
  using TypedIterator::TypedIterator;

  std::int64_t skipped() const override { return core().skipped(); }
  ThreadPoolStats stats() const override { return core().stats(); }
  std::size_t memory_bytes() const override { return core().memory_bytes(); }
  std::size_t end(const Visit& visit) override { return static_cast<BatchMaker&>(*core_).end(visit); }

 private:
  const BatchMaker& core() const { return static_cast<const BatchMaker&>(*core_); }
};

}  // namespace

Result<std::unique_ptr<TensorIterator>> map_and_batch(const AnyStage& upstream, const BatchType& type, int batch,
                                                      const std::vector<TensorSpec>& specs, MakeInto make,
                                                      MapAndBatchOptions options, std::int64_t epoch) {
  XOE_TRY(check(batch, specs, options));
  XOE_ASSIGN(auto iterator, upstream.iterate_any(epoch));
  return std::make_unique<TypedBatchMaker>(
      std::make_unique<BatchMaker>(std::move(iterator), type, batch, specs, std::move(make), std::move(options)));
}

}  // namespace detail
}  // namespace xoe::data
