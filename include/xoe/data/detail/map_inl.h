// Included by stages.h: how map() and to_device() work.
#pragma once

#include <algorithm>
#include <memory>

#include "xoe/data/detail/tuning.h"
#include "xoe/data/ordered_thread_pool.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace detail {

template <class T, class U>
struct MapRecipe {
  std::function<Result<U>(const T&)> f;
  MapOptions options;
};

// One element on its way through f.
template <class T, class U>
class MapJob final : public Job {
 public:
  MapJob(Next<T> element, std::int64_t number, State after)
      : Job(element && *element ? 1 : 0), source(std::move(element)), position(number), behind(std::move(after)) {}

  Next<T> source;  // an error or the end is the last job
  std::int64_t position;
  State behind;  // of the upstream
  Result<std::optional<U>> made = std::optional<U>();
};

template <class T, class U>
class MapIterator final : public IteratorOf<T, U, MapRecipe<T, U>> {
 public:
  using Base = IteratorOf<T, U, MapRecipe<T, U>>;
  using Base::Base;

  static std::optional<std::int64_t> size(const Stage<T>& upstream, const MapRecipe<T, U>& recipe) {
    if (recipe.options.on_error == OnError::kSkip) return std::nullopt;
    return upstream.size();
  }

  Status open() override {
    const MapOptions& options = this->options_.options;
    if (options.threads < kAutoThreads)
      return failure(Code::kInvalidArgument, "map: threads is " + std::to_string(options.threads));
    if (auto opened = Base::open(); !opened) return opened;
    delivered_ = this->upstream_->save();
    const int threads = most_threads(options.threads, options.processes);
    const std::size_t ahead = options.ahead > 0 ? options.ahead : 4 * static_cast<std::size_t>(threads);
    pool_ = std::make_unique<OrderedThreadPool>(
        ThreadPoolOptions{.threads = threads,
                          .depth = ahead,
                          .tune = options.tune || options.threads == kAutoThreads,
                          .cpus = options.threads == kAutoThreads ? threads : 0,
                          .name = options.name},
        [this] { return pull(); }, [this](Job& job, std::size_t, int) { make(static_cast<MapJob<T, U>&>(job)); });
    return {};
  }

  Next<U> produce() override {
    for (;;) {
      const std::unique_ptr<Job> taken = pool_->take();
      if (taken == nullptr) return std::nullopt;
      auto& job = static_cast<MapJob<T, U>&>(*taken);
      if (!job.source) return failure(job.source.error());
      if (!*job.source) return std::nullopt;
      delivered_ = std::move(job.behind);
      position_ = job.position + 1;
      if (job.made) return std::move(job.made);
      if (auto counted = account(job.made.error()); !counted) return failure(counted.error());
    }
  }
  State save() const override {
    State state = delivered_;
    state.push("map.position", position_);
    state.push("map.skipped", skipped_);
    return state;
  }
  Status resume(State state) override {
    const auto skipped = state.pop("map.skipped");
    if (!skipped) return failure(skipped.error());
    const auto position = state.pop("map.position");
    if (!position) return failure(position.error());
    skipped_ = *skipped;
    position_ = *position;
    delivered_ = state;
    Status restored;
    pool_->restart([&] {
      pulled_ = position_;
      ended_ = false;
      restored = this->upstream_->restore(std::move(state));
    });
    return restored;
  }

 protected:
  void describe(StageReport& mine) const override {
    mine.name = this->options_.options.name;
    pool_->report(mine);
  }

 private:
  std::unique_ptr<Job> pull() {
    if (ended_) return nullptr;
    State after;
    Next<T> element = caught([&] {
      Next<T> pulled = this->upstream_->next();
      if (pulled) after = this->upstream_->save();
      return pulled;
    });
    ended_ = !element || !*element;
    return std::make_unique<MapJob<T, U>>(std::move(element), pulled_++, std::move(after));
  }
  void make(MapJob<T, U>& job) {
    const T& element = **job.source;
    Result<U> made = guarded<U>("map", this->epoch_, job.position, this->options_.f, element);
    if (made)
      job.made = std::optional<U>(std::move(*made));
    else
      job.made = failure(made.error());
  }
  Status account(const Error& error) {
    const MapOptions& options = this->options_.options;
    if (options.on_error == OnError::kFail || !may_skip(error)) return failure(error);
    if (++skipped_ <= options.max_bad) return {};
    return failure(error.code(), "map: " + std::to_string(skipped_) + " bad elements, more than the " +
                                     std::to_string(options.max_bad) + " allowed; the last one: " + error.message());
  }

  // Of whoever pulls.
  std::int64_t pulled_ = 0;
  bool ended_ = false;

  // Of the consumer.
  State delivered_;
  std::int64_t position_ = 0;  // in the upstream
  std::int64_t skipped_ = 0;
  std::unique_ptr<OrderedThreadPool> pool_;  // last: its threads end before what they use goes
};

}  // namespace detail

template <class U, class T>
StagePtr<U> map(StagePtr<T> upstream, std::function<Result<U>(const T&)> f, MapOptions options) {
  using Recipe = detail::MapRecipe<T, U>;
  using Made = detail::StageOf<detail::MapIterator<T, U>, T, U, Recipe>;
  return std::make_shared<Made>(std::move(upstream), Recipe{std::move(f), options});
}

template <class U, class T>
StagePtr<U> to_device(StagePtr<T> upstream, std::function<Result<U>(const T&)> copy, std::size_t depth) {
  return map<U, T>(std::move(upstream), std::move(copy),
                   {.threads = 1, .ahead = std::max<std::size_t>(depth, 1), .name = "to_device"});
}

}  // namespace xoe::data
