#include "xoe/data/map_and_batch.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "xoe/data/detail/tuning.h"

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

}  // namespace

Status check_map_and_batch(int batch, const std::vector<TensorSpec>& specs, const MapAndBatchOptions& options) {
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

BatchMaker::BatchMaker(int batch, std::vector<TensorSpec> specs, MapAndBatchOptions options)
    : options_(options), batch_(static_cast<std::size_t>(batch)) {
  options_.tune = options.tune || options.threads == kAutoThreads;
  options_.threads = most_threads(options.threads, options.processes);
  if (options.threads == kAutoThreads) options_.cpus = options_.threads;
  for (const TensorSpec& spec : specs) {
    bytes_.push_back(spec.bytes());
    pools_.emplace_back(std::max<std::size_t>(spec.bytes() * batch_, 1), options_.depth + 1);
  }
}

void BatchMaker::open(State start) {
  delivered_ = std::move(start);
  pool_ = std::make_unique<OrderedThreadPool>(
      ThreadPoolOptions{.threads = options_.threads,
                        .depth = options_.depth,
                        .tune = options_.tune,
                        .least_depth = options_.least_depth,
                        .cpus = options_.cpus,
                        .name = "map_and_batch"},
      [this] { return pull_job(); },
      [this](Job& job, std::size_t task, int worker) { make_element(static_cast<BatchJob&>(job), task, worker); });
}

std::size_t BatchMaker::memory_bytes() const {
  std::size_t bytes = 0;
  for (const MemoryPool& pool : pools_) bytes += pool.block_bytes();
  return bytes * (options_.threads == 0 ? 1 : options_.depth + 1);
}

void* BatchMaker::place(const BatchJob& job, std::size_t tensor, std::size_t element) const {
  return static_cast<char*>(job.tensors[tensor].get()) + element * bytes_[tensor];
}

std::unique_ptr<Job> BatchMaker::pull_job() {
  if (ended_) return nullptr;
  auto pulled = caught([this] { return pull_batch(); });
  ended_ = !pulled || *pulled == nullptr;
  if (pulled) return std::move(*pulled);
  auto failed = std::make_unique<BatchJob>(0, 0, 0);
  failed->upstream_error = pulled.error();
  return failed;
}

Result<std::unique_ptr<BatchJob>> BatchMaker::pull_batch() {
  XOE_ASSIGN(std::unique_ptr<BatchJob> job, pull());
  if (job == nullptr) return nullptr;
  if (job->tasks() > batch_)
    return failure(Code::kInvalidArgument, "map_and_batch: a batch of {} where {} fit", job->tasks(), batch_);
  for (MemoryPool& pool : pools_) job->tensors.push_back(pool.take());
  return job;
}

void BatchMaker::make_element(BatchJob& job, std::size_t task, int worker) {
  std::array<void*, kMaxTensors> places = {};
  for (std::size_t tensor = 0; tensor < bytes_.size(); ++tensor) places[tensor] = place(job, tensor, task);
  const Status made = make(job, task, {places.data(), bytes_.size()}, worker);
  if (!made) job.errors[task] = made.error();
}

Next<TensorBatch> BatchMaker::produce() {
  const std::unique_ptr<Job> taken = pool_->take();
  if (taken == nullptr) return std::nullopt;
  auto& job = static_cast<BatchJob&>(*taken);
  if (job.upstream_error) return failure(*job.upstream_error);
  XOE_ASSIGN(TensorBatch batch, finish(job));
  delivered_ = std::move(job.after);
  return std::optional<TensorBatch>(std::move(batch));
}

Status BatchMaker::account(const BatchJob& job) {
  if (job.epoch != epoch_) {
    epoch_ = job.epoch;
    skipped_in_epoch_ = 0;
  }
  for (const auto& error : job.errors) {
    if (!error) continue;
    if (options_.on_error == OnError::kFail || !may_skip(*error)) return failure(*error);
    ++skipped_;
    if (++skipped_in_epoch_ > options_.max_bad)
      return failure(Code::kDataLoss, "{} bad records in epoch {}, more than the {} allowed; the last one: {}",
                     skipped_in_epoch_, epoch_, options_.max_bad, error->message());
  }
  return {};
}

// Bad elements are replaced by the next good one, or closed up.
Result<TensorBatch> BatchMaker::finish(BatchJob& job) {
  XOE_TRY(account(job));
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
  TensorBatch batch{.epoch = job.epoch, .index = job.index, .count = static_cast<int>(count), .tensors = {}};
  batch.tensors = std::move(job.tensors);
  return batch;
}

void BatchMaker::describe(StageReport& mine) const {
  mine.name = "map_and_batch";
  const ThreadPoolStats seen = pool_->stats();
  for (const std::size_t bytes : bytes_) mine.bytes += seen.tasks * static_cast<std::int64_t>(bytes);
  pool_->report(mine);
}

State BatchMaker::save() const {
  State state = delivered_;
  state.push("batches.epoch", epoch_);
  state.push("batches.skipped_in_epoch", skipped_in_epoch_);
  state.push("batches.skipped", skipped_);
  return state;
}

Status BatchMaker::resume(State state) {
  XOE_ASSIGN(const auto skipped, state.pop("batches.skipped"));
  XOE_ASSIGN(const auto skipped_in_epoch, state.pop("batches.skipped_in_epoch"));
  XOE_ASSIGN(const auto epoch, state.pop("batches.epoch"));
  delivered_ = state;
  Status restored;
  pool_->restart([&] {
    ended_ = false;
    restored = caught([&] { return restore_upstream(std::move(state)); });
  });
  if (!restored) return restored;
  skipped_ = skipped;
  skipped_in_epoch_ = skipped_in_epoch;
  epoch_ = epoch;
  return {};
}

}  // namespace detail
}  // namespace xoe::data
