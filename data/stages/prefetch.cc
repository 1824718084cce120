// prefetch(): a thread that works ahead.
#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

#include "data/stages/iterator_base.h"
#include "data/tune/tuning.h"
#include "xoe/data/stages.h"

namespace xoe::data::detail {
namespace {

constexpr std::size_t kMostAhead = 64;

struct PrefetchOptions {
  std::size_t depth;  // kAutoDepth: tuned
  std::size_t memory_budget;
};

// A thread pulls the upstream and queues each answer with the position after it. save() is the position of the answer
// that was delivered last, so queued elements are made again after a restore.
class PrefetchIterator final : public Produces<PrefetchIterator, UpstreamIterator> {
 public:
  PrefetchIterator(AnyStagePtr upstream, const ElementType& type, std::int64_t epoch, PrefetchOptions options)
      : Produces("prefetch", std::move(upstream), type, epoch, std::vector<Field>{}),
        budget_(data::memory_budget(options.memory_budget)),
        depth_(options.depth) {
    if (options.depth != kAutoDepth) return;
    tuning_.emplace(TunerLimits{.most = {1, kMostAhead}});
    depth_ = tuning_->setting().depth;
  }
  ~PrefetchIterator() override { account_.close(); }

  Status open() override {
    XOE_TRY(UpstreamIterator::open());
    delivered_ = upstream_->save();
    start();
    return {};
  }

  Result<bool> produce(Slot& slot) override {
    std::unique_lock lock(mutex_);
    ready_ += static_cast<std::int64_t>(queue_.size());
    const bool waits = queue_.empty();
    if (waits) waited_ += seconds_of([&] { changed_.wait(lock, [this] { return !queue_.empty(); }); });
    Answer& answer = queue_.front();
    if (!answer.there) return answer.there;  // an error or the end is the last answer, and stays
    if (!*answer.there) {
      delivered_ = answer.after;
      return false;
    }
    std::swap(delivered_, answer.after);
    queued_bytes_ -= answer.bytes();
    answer.element.give(slot);
    spare_.splice(spare_.end(), queue_, queue_.begin());
    ++taken_;
    if (tuning_ && (waits || taken_ % kTuneEvery == 0)) tune();
    changed_.notify_all();
    return true;
  }
  State save() const override { return delivered_; }
  Status resume(State state) override {
    account_.close();
    thread_ = {};
    queue_.clear();
    delivered_ = state;
    XOE_TRY(upstream_->restore(std::move(state)));
    start();
    return {};
  }

 private:
  struct Answer {
    explicit Answer(const ElementType& type) : element(type) {}

    std::size_t bytes() const { return static_cast<std::size_t>(std::max<std::int64_t>(element.bytes(), 0)); }

    Result<bool> there = false;
    ElementBox element;
    State after;
  };
  using Answers = std::list<Answer>;  // entries go to and fro between queue_ and spare_

  void describe(StageReport& mine) const override {
    pulled_.report(mine, Meter::Part::kTimes);
    const std::lock_guard lock(mutex_);
    mine.idle = idle_;
    mine.threads = mine.most_threads = mine.pullers = 1;
    mine.ready = static_cast<double>(ready_) / static_cast<double>(std::max<std::int64_t>(taken_, 1));
    mine.depth = depth_;
    mine.most_depth = tuning_ ? kMostAhead : depth_;
    if (tuning_) mine.last_tuning = tuning_->reason();
  }

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
    if (!tuning_->window_ended()) return;
    tuning_->step({.waited = waited_, .idle = idle_, .taken = taken_});
    depth_ = tuning_->setting().depth;
  }
  // False after the last answer.
  bool pull(Answer& answer) {
    answer.there = caught([&] {
      Result<bool> there = answer.element.pull(*upstream_);
      if (there) answer.after = upstream_->save();
      return there;
    });
    return answer.there && *answer.there;
  }
  bool has_room(const Answer& answer) const {
    if (queue_.empty()) return true;
    return queue_.size() < depth_ && (!tuning_ || queued_bytes_ + answer.bytes() <= budget_);
  }
  void run(const std::stop_token& stop) {
    Answers next;
    for (bool more = true; more && !stop.stop_requested();) {
      {
        const std::lock_guard lock(mutex_);
        if (!spare_.empty()) next.splice(next.end(), spare_, spare_.begin());
      }
      if (next.empty()) next.emplace_back(type_);
      Answer& answer = next.front();
      more = pulled_.call([&] { return pull(answer); });
      std::unique_lock lock(mutex_);
      bool room = has_room(answer);
      if (!room) idle_ += seconds_of([&] { room = changed_.wait(lock, stop, [&] { return has_room(answer); }); });
      if (!room) return;  // it is to stop
      queued_bytes_ += answer.bytes();
      queue_.splice(queue_.end(), next);
      changed_.notify_all();
    }
  }

  const std::size_t budget_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Answers queue_;
  Answers spare_;
  std::size_t queued_bytes_ = 0;
  std::size_t depth_;
  CpuAccount account_;
  std::optional<Tuning> tuning_;  // of the consumer; empty: fixed
  std::int64_t ready_ = 0;        // answers in the queue when asked, added up
  std::int64_t taken_ = 0;
  double waited_ = 0;  // the consumer's seconds
  double idle_ = 0;    // the thread's
  Meter pulled_;       // of the thread
  State delivered_;
  std::jthread thread_;  // last: joined before what it uses goes
};

}  // namespace

AnyStagePtr prefetch(const AnyStagePtr& upstream, std::size_t depth, std::size_t memory_budget) {
  return make_stage<PrefetchIterator>(upstream, upstream->element_type(), PrefetchOptions{depth, memory_budget});
}

}  // namespace xoe::data::detail
