// Included by stages.h: how prefetch() works.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "xoe/data/detail/cpu_account.h"
#include "xoe/data/detail/tuning.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace detail {

struct PrefetchOptions {
  std::size_t depth;  // kAutoDepth: tuned
  std::size_t memory_budget;
};

// A thread pulls the upstream and queues each answer with the position after it; save() is the position of the answer
// that was delivered last, so what is queued is made again after a restore.
template <class T>
class PrefetchIterator final : public IteratorOf<T, T, PrefetchOptions> {
 public:
  using Base = IteratorOf<T, T, PrefetchOptions>;

  PrefetchIterator(StagePtr<T> upstream, std::int64_t epoch, PrefetchOptions options)
      : Base(std::move(upstream), epoch, options), depth_(options.depth), most_depth_(options.depth) {
    if (options.depth != kAutoDepth) return;
    most_depth_ = kMostAhead;
    tuning_.emplace(Tuning::Limits{.most_depth = most_depth_});
    depth_ = tuning_->depth();
  }

  static std::optional<std::int64_t> size(const Stage<T>& upstream, const PrefetchOptions&) { return upstream.size(); }

  Status open() override {
    if (auto opened = Base::open(); !opened) return opened;
    delivered_ = this->upstream_->save();
    start();
    return {};
  }

  Next<T> produce() override {
    std::unique_lock lock(mutex_);
    ready_ += static_cast<std::int64_t>(queue_.size());
    const bool waits = queue_.empty();
    if (waits) waited_ += seconds_of([&] { changed_.wait(lock, [this] { return !queue_.empty(); }); });
    Answer& answer = queue_.front();
    if (!answer.element) return failure(answer.element.error());  // an error or the end is the last answer, and stays
    delivered_ = answer.state;
    if (!*answer.element) return std::nullopt;
    Next<T> element = std::move(answer.element);
    queued_bytes_ -= answer.bytes;
    queue_.pop_front();
    ++taken_;
    if (tuning_ && (waits || taken_ % kLookEvery == 0)) tune();
    changed_.notify_all();
    return element;
  }
  State save() const override { return delivered_; }
  ~PrefetchIterator() override { account_.close(); }
  Status resume(State state) override {
    account_.close();
    thread_ = {};
    queue_.clear();
    delivered_ = state;
    Status restored = this->upstream_->restore(std::move(state));
    if (restored) start();
    return restored;
  }

 protected:
  void describe(StageReport& mine) const override {
    pulled_.report(mine, Meter::Part::kTimes);
    mine.name = "prefetch";
    const std::lock_guard lock(mutex_);
    mine.idle = idle_;
    mine.threads = mine.most_threads = mine.pullers = 1;
    mine.ready = static_cast<double>(ready_) / static_cast<double>(std::max<std::int64_t>(taken_, 1));
    mine.depth = depth_;
    mine.most_depth = most_depth_;
    if (tuning_) mine.last_tuning = tuning_->reason();
  }

 private:
  struct Answer {
    Next<T> element;
    State state;
    std::size_t bytes = 0;
  };
  static constexpr std::size_t kMostAhead = 64;
  static constexpr std::int64_t kLookEvery = 16;  // elements between looks at the clock

  void start() {
    queued_bytes_ = 0;
    ready_ = taken_ = 0;
    waited_ = idle_ = 0;
    pulled_.reset();
    if (tuning_) tuning_->restart();
    thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
    account_.open({&thread_, 1});
  }
  void tune() {
    if (!tuning_->due()) return;
    tuning_->step({.waited = waited_, .idle = idle_, .taken = taken_});
    depth_ = tuning_->depth();
  }
  Answer pull() {
    State state;
    Next<T> element = caught([&] {
      Next<T> pulled = this->upstream_->next();
      if (pulled) state = this->upstream_->save();
      return pulled;
    });
    const std::int64_t bytes = element && *element ? ElementBytes<T>::of(**element) : 0;
    return {std::move(element), std::move(state), static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0))};
  }
  bool room_for(const Answer& answer) const {
    if (queue_.empty()) return true;
    if (queue_.size() >= depth_) return false;
    return !tuning_ || queued_bytes_ + answer.bytes <= memory_budget(this->options_.memory_budget);
  }
  void run(const std::stop_token& stop) {
    for (bool more = true; more && !stop.stop_requested();) {
      Answer answer = pulled_.call([this] { return pull(); });
      more = answer.element && *answer.element;
      std::unique_lock lock(mutex_);
      bool room = room_for(answer);
      if (!room) idle_ += seconds_of([&] { room = changed_.wait(lock, stop, [&] { return room_for(answer); }); });
      if (!room) return;  // it is to stop
      queued_bytes_ += answer.bytes;
      queue_.push_back(std::move(answer));
      changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Answer> queue_;
  std::size_t queued_bytes_ = 0;
  std::size_t depth_;
  std::size_t most_depth_;
  CpuAccount account_;
  std::optional<Tuning> tuning_;  // of the consumer; empty: fixed
  std::int64_t ready_ = 0;        // in the queue when asked, added up
  std::int64_t taken_ = 0;
  double waited_ = 0;  // the consumer's seconds
  double idle_ = 0;    // the thread's
  Meter pulled_;       // of the thread
  State delivered_;
  std::jthread thread_;  // last: joined before what it uses goes
};

}  // namespace detail

template <class T>
StagePtr<T> prefetch(StagePtr<T> upstream, std::size_t depth, std::size_t memory_budget) {
  if (depth == 0) return upstream;
  using Made = detail::StageOf<detail::PrefetchIterator<T>, T, T, detail::PrefetchOptions>;
  return std::make_shared<Made>(std::move(upstream), detail::PrefetchOptions{depth, memory_budget});
}

}  // namespace xoe::data
