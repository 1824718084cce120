#include "data/image_loader.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace xoe::data {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

ImageLoader::ImageLoader(std::shared_ptr<const RecordIndex> index, std::unique_ptr<Iterator<Batch<RecordRef>>> upstream,
                         const LoaderRecipe& recipe)
    : index_(std::move(index)),
      upstream_(std::move(upstream)),
      recipe_(recipe),
      image_floats_(std::size_t{3} * static_cast<std::size_t>(recipe.image.output) *
                    static_cast<std::size_t>(recipe.image.output)),
      pool_(image_floats_ * static_cast<std::size_t>(recipe.batch)),
      delivered_(upstream_->save()) {
  if (recipe_.threads == 0) own_worker_.emplace(index_, recipe_.image);
  start();
}

ImageLoader::~ImageLoader() { stop(); }

std::size_t ImageLoader::memory_bytes() const {
  const std::size_t batches = recipe_.threads == 0 ? 1 : recipe_.depth + 1;
  return batches * image_floats_ * static_cast<std::size_t>(recipe_.batch) * sizeof(float);
}

void ImageLoader::start() {
  for (int i = 0; i < recipe_.threads; ++i) threads_.emplace_back([this](std::stop_token token) { work(token); });
}

void ImageLoader::stop() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

void ImageLoader::work(const std::stop_token& stop) {
  ImageWorker worker(index_, recipe_.image);
  std::unique_lock lock(mutex_);
  for (;;) {
    MakingPtr making;
    if (!more_room_.wait(lock, stop, [&] { return (making = claimable()) != nullptr; }) || stop.stop_requested())
      return;
    const std::size_t i = making->claimed++;
    lock.unlock();
    auto label = worker.make(making->source.elements[i], place(*making, i));
    lock.lock();
    making->labels[i] = std::move(label);
    ++making->done;
    if (making->complete() && making == queue_.front()) oldest_done_.notify_one();
  }
}

// A batch with an image that nobody works on. Holds the lock.
ImageLoader::MakingPtr ImageLoader::claimable() {
  for (const MakingPtr& making : queue_)
    if (making->claimed < making->labels.size()) return making;
  while (!ended_ && queue_.size() < recipe_.depth) {
    MakingPtr making = pull();
    if (making == nullptr) break;
    queue_.push_back(making);
    // Others can help with it; an empty batch is complete as it is.
    more_room_.notify_all();
    oldest_done_.notify_one();
    if (!making->labels.empty()) return making;
  }
  if (ended_) oldest_done_.notify_one();
  return nullptr;
}

ImageLoader::MakingPtr ImageLoader::pull() {
  auto source = upstream_->next();
  if (!source || !*source) {
    ended_ = true;
    if (!source) upstream_error_ = source.error();
    return nullptr;
  }
  auto making = std::make_shared<Making>();
  making->source = std::move(**source);
  making->after = upstream_->save();
  making->labels.resize(making->source.elements.size(), std::int64_t{0});
  making->pixels = pool_.take();
  return making;
}

// The batch to deliver, complete; null at the end.
Result<ImageLoader::MakingPtr> ImageLoader::oldest() {
  MakingPtr making;
  if (own_worker_) {
    making = pull();
    for (std::size_t i = 0; making != nullptr && i < making->labels.size(); ++i)
      making->labels[i] = own_worker_->make(making->source.elements[i], place(*making, i));
  } else {
    std::unique_lock lock(mutex_);
    oldest_done_.wait(lock, [this] { return queue_.empty() ? ended_ : queue_.front()->complete(); });
    if (!queue_.empty()) {
      making = std::move(queue_.front());
      queue_.pop_front();
      more_room_.notify_all();
    }
  }
  if (making == nullptr && upstream_error_) return failure(*upstream_error_);
  return making;
}

Result<std::optional<ImageBatch>> ImageLoader::next() {
  if (failed_) return failure(*failed_);
  const auto start = std::chrono::steady_clock::now();
  auto making = oldest();
  waited_ += seconds_since(start);
  if (making && *making == nullptr) return std::nullopt;
  auto batch = making ? finish(**making) : failure(making.error());
  if (!batch) {
    failed_ = batch.error();
    return failure(*failed_);
  }
  delivered_ = std::move((*making)->after);
  return std::optional<ImageBatch>(std::move(*batch));
}

Status ImageLoader::account(const Making& making) {
  if (making.source.epoch != epoch_) {
    epoch_ = making.source.epoch;
    skipped_in_epoch_ = 0;
  }
  for (const auto& label : making.labels) {
    if (label) continue;
    if (recipe_.on_error == OnError::kFail || !may_skip(label.error())) return failure(label.error());
    ++skipped_;
    if (++skipped_in_epoch_ > recipe_.max_bad)
      return failure(Code::kDataLoss, "{} bad records in epoch {}, more than the {} allowed; the last one: {}",
                     skipped_in_epoch_, epoch_, recipe_.max_bad, label.error().message());
  }
  return {};
}

// Bad images are replaced by the next good one, or closed up.
Result<ImageBatch> ImageLoader::finish(Making& making) {
  XOE_TRY(account(making));
  ImageBatch batch;
  const std::size_t places = making.labels.size();
  std::vector<std::size_t> good;
  for (std::size_t i = 0; i < places; ++i)
    if (making.labels[i]) good.push_back(i);
  if (recipe_.keep_full && good.empty() && places > 0) {
    const auto last = std::find_if(making.labels.rbegin(), making.labels.rend(), [](const auto& l) { return !l; });
    return failure(Code::kDataLoss, "all {} images of a batch are bad; the last one: {}", places,
                   last->error().message());
  }
  const auto copy_image = [&](std::size_t from, std::size_t to) {
    if (from != to) std::copy_n(place(making, from), image_floats_, place(making, to));
  };
  const std::size_t count = recipe_.keep_full ? places : good.size();
  for (std::size_t to = 0; to < count; ++to) {
    std::size_t from = to;
    if (recipe_.keep_full) {
      while (!making.labels[from]) from = (from + 1) % places;
    } else {
      from = good[to];
    }
    copy_image(from, to);
    batch.labels.push_back(*making.labels[from]);
  }
  batch.pixels = std::move(making.pixels);
  batch.count = static_cast<int>(count);
  batch.height = batch.width = recipe_.image.output;
  batch.epoch = making.source.epoch;
  batch.index = making.source.index;
  return batch;
}

State ImageLoader::save() const {
  State state = delivered_;
  state.push("images.epoch", epoch_);
  state.push("images.skipped_in_epoch", skipped_in_epoch_);
  state.push("images.skipped", skipped_);
  state.push("images.seed", static_cast<std::int64_t>(recipe_.image.seed));
  state.push("images.records", recipe_.records);
  state.push("images.joint_batch", recipe_.joint_batch);
  return state;
}

Status ImageLoader::check_same(State& state) const {
  XOE_ASSIGN(const auto joint_batch, state.pop("images.joint_batch"));
  XOE_ASSIGN(const auto records, state.pop("images.records"));
  XOE_ASSIGN(const auto seed, state.pop("images.seed"));
  if (records != recipe_.records)
    return failure(Code::kInvalidArgument, "saved position: of {} records; here are {}", records, recipe_.records);
  if (joint_batch != recipe_.joint_batch)
    return failure(Code::kInvalidArgument, "saved position: of {} images a step over all ranks; here they are {}",
                   joint_batch, recipe_.joint_batch);
  if (seed != static_cast<std::int64_t>(recipe_.image.seed))
    return failure(Code::kInvalidArgument, "saved position: of seed {}; here it is {}", seed, recipe_.image.seed);
  return {};
}

Status ImageLoader::restore(State state) {
  XOE_TRY(check_same(state));
  XOE_ASSIGN(const auto skipped, state.pop("images.skipped"));
  XOE_ASSIGN(const auto skipped_in_epoch, state.pop("images.skipped_in_epoch"));
  XOE_ASSIGN(const auto epoch, state.pop("images.epoch"));
  stop();
  queue_.clear();
  ended_ = false;
  upstream_error_.reset();
  failed_.reset();
  delivered_ = state;
  if (auto restored = upstream_->restore(std::move(state)); !restored) {
    failed_ = restored.error();
    return restored;
  }
  skipped_ = skipped;
  skipped_in_epoch_ = skipped_in_epoch;
  epoch_ = epoch;
  start();
  return {};
}

}  // namespace xoe::data
