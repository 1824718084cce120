// Included by stages.h: how prefetch() works.
#pragma once

#include "xoe/data/stages.h"

namespace xoe::data {
namespace detail {

// A thread pulls the upstream and queues each answer with the position after it; save() is the position of the answer
// that was delivered last, so what is queued is made again after a restore.
template <class T>
class PrefetchIterator final : public IteratorOf<T, T, std::size_t> {
 public:
  using IteratorOf<T, T, std::size_t>::IteratorOf;

  static std::optional<std::int64_t> size(const Stage<T>& upstream, const std::size_t&) { return upstream.size(); }

  Status open() override {
    if (auto opened = IteratorOf<T, T, std::size_t>::open(); !opened) return opened;
    delivered_ = this->upstream_->save();
    start();
    return {};
  }

  Next<T> next() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !queue_.empty(); });
    Answer& answer = queue_.front();
    delivered_ = answer.state;
    if (!answer.element) return failure(answer.element.error());  // an error or the end is the last answer, and stays
    if (!*answer.element) return std::nullopt;
    Next<T> element = std::move(answer.element);
    queue_.pop_front();
    changed_.notify_all();
    return element;
  }
  State save() const override { return delivered_; }
  Status restore(State state) override {
    thread_ = {};
    queue_.clear();
    delivered_ = state;
    Status restored = this->upstream_->restore(std::move(state));
    if (restored)
      start();
    else
      queue_.push_back({failure(restored.error()), delivered_});
    return restored;
  }

 private:
  struct Answer {
    Next<T> element;
    State state;
  };

  void start() {
    thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
  }
  void run(const std::stop_token& stop) {
    for (bool more = true; more;) {
      Answer answer{this->upstream_->next(), {}};
      answer.state = this->upstream_->save();
      more = answer.element && *answer.element;
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return queue_.size() < this->options_; })) return;
      queue_.push_back(std::move(answer));
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Answer> queue_;
  State delivered_;
  std::jthread thread_;  // last: joined before what it uses goes
};

}  // namespace detail

template <class T>
StagePtr<T> prefetch(StagePtr<T> upstream, std::size_t depth) {
  if (depth == 0) return upstream;
  using Made = detail::StageOf<detail::PrefetchIterator<T>, T, T, std::size_t>;
  return std::make_shared<Made>(std::move(upstream), depth);
}

}  // namespace xoe::data
