// Included by stages.h: which elements come, and in which order.
#pragma once

#include <algorithm>

#include "xoe/data/stages.h"

namespace xoe::data {
namespace detail {

struct ShuffleOptions {
  std::size_t buffer;
  std::uint64_t seed;
};

template <class T>
class ShuffleIterator final : public IteratorOf<T, T, ShuffleOptions> {
 public:
  using IteratorOf<T, T, ShuffleOptions>::IteratorOf;

  static std::optional<std::int64_t> size(const Stage<T>& upstream, const ShuffleOptions&) { return upstream.size(); }

  Next<T> produce() override {
    while (!ended_ && buffer_.size() < std::max<std::size_t>(this->options_.buffer, 1)) {
      auto element = this->upstream_->next();
      if (!element) return element;
      if (*element)
        buffer_.push_back(std::move(**element));
      else
        ended_ = true;
    }
    if (buffer_.empty()) return std::nullopt;
    const auto draw = mix(this->options_.seed, static_cast<std::uint64_t>(this->epoch_), drawn_++);
    std::swap(buffer_[draw % buffer_.size()], buffer_.back());
    T drawn = std::move(buffer_.back());
    buffer_.pop_back();
    return drawn;
  }
  State save() const override {
    State state;
    state.push("shuffle.position", static_cast<std::int64_t>(drawn_));
    return state;
  }
  Status resume(State state) override {
    const auto position = state.pop("shuffle.position");
    if (!position) return failure(position.error());
    buffer_.clear();
    ended_ = false;
    drawn_ = 0;
    if (auto opened = this->open(); !opened) return opened;
    while (static_cast<std::int64_t>(drawn_) < *position) {
      auto element = produce();
      if (!element) return failure(element.error());
      if (!*element) return failure(Code::kInvalidArgument, "shuffle: the saved position is past the end of the epoch");
    }
    return {};
  }

 protected:
  void describe(StageReport& mine) const override { mine.name = "shuffle"; }

 private:
  std::vector<T> buffer_;
  bool ended_ = false;
  std::uint64_t drawn_ = 0;
};

struct ShardOptions {
  int rank;
  int size;
};

template <class T>
class ShardIterator final : public IteratorOf<T, T, ShardOptions> {
 public:
  using IteratorOf<T, T, ShardOptions>::IteratorOf;

  static std::optional<std::int64_t> size(const Stage<T>& upstream, const ShardOptions& options) {
    const auto total = upstream.size();
    if (!total) return std::nullopt;
    return plan_shard(*total, options.rank, options.size, 1, Remainder::kKeep).elements;
  }

  Next<T> produce() override {
    const auto there = this->upstream_->skip(started_ ? this->options_.size - 1 : this->options_.rank);
    if (!there) return failure(there.error());
    started_ = true;
    if (!*there) return std::nullopt;
    return this->upstream_->next();
  }
  State save() const override {
    State state = this->upstream_->save();
    state.push("shard.started", started_ ? 1 : 0);
    return state;
  }
  Status resume(State state) override {
    const auto started = state.pop("shard.started");
    if (!started) return failure(started.error());
    started_ = *started != 0;
    return this->upstream_->restore(std::move(state));
  }

 protected:
  void describe(StageReport& mine) const override { mine.name = "shard"; }

 private:
  bool started_ = false;
};

struct TakeOptions {
  std::int64_t skip;  // first
  std::int64_t take;  // then; negative: all
};

template <class T>
class TakeIterator final : public IteratorOf<T, T, TakeOptions> {
 public:
  using IteratorOf<T, T, TakeOptions>::IteratorOf;

  static std::optional<std::int64_t> size(const Stage<T>& upstream, const TakeOptions& options) {
    const auto total = upstream.size();
    if (!total) return std::nullopt;
    const std::int64_t left = std::max<std::int64_t>(*total - options.skip, 0);
    return options.take < 0 ? left : std::min(left, options.take);
  }

  Next<T> produce() override {
    if (this->options_.take >= 0 && taken_ == this->options_.take) return std::nullopt;
    if (taken_ == 0 && this->options_.skip > 0 && !skipped_) {
      const auto there = this->upstream_->skip(this->options_.skip);
      if (!there) return failure(there.error());
      skipped_ = true;
    }
    auto element = this->upstream_->next();
    if (element && *element) ++taken_;
    return element;
  }
  State save() const override {
    State state = this->upstream_->save();
    state.push("take.skipped", skipped_ ? 1 : 0);
    state.push("take.taken", taken_);
    return state;
  }
  Status resume(State state) override {
    const auto taken = state.pop("take.taken");
    if (!taken) return failure(taken.error());
    const auto skipped = state.pop("take.skipped");
    if (!skipped) return failure(skipped.error());
    taken_ = *taken;
    skipped_ = *skipped != 0;
    return this->upstream_->restore(std::move(state));
  }

 protected:
  void describe(StageReport& mine) const override { mine.name = this->options_.take < 0 ? "skip" : "take"; }

 private:
  std::int64_t taken_ = 0;
  bool skipped_ = false;
};

template <class T>
using Predicate = std::function<Result<bool>(const T&)>;

template <class T>
class FilterIterator final : public IteratorOf<T, T, Predicate<T>> {
 public:
  using IteratorOf<T, T, Predicate<T>>::IteratorOf;

  static std::optional<std::int64_t> size(const Stage<T>&, const Predicate<T>&) { return std::nullopt; }

  Next<T> produce() override {
    for (;;) {
      auto element = this->upstream_->next();
      if (!element || !*element) return element;
      const Result<bool> wanted = guarded<bool>("filter", this->epoch_, position_, this->options_, **element);
      ++position_;
      if (!wanted) return failure(wanted.error());
      if (*wanted) return element;
    }
  }
  State save() const override {
    State state = this->upstream_->save();
    state.push("filter.position", position_);
    return state;
  }
  Status resume(State state) override {
    const auto position = state.pop("filter.position");
    if (!position) return failure(position.error());
    position_ = *position;
    return this->upstream_->restore(std::move(state));
  }

 protected:
  void describe(StageReport& mine) const override { mine.name = "filter"; }

 private:
  std::int64_t position_ = 0;  // in the upstream, for messages
};

struct NoOptions {};

template <class T>
class NumberedIterator final : public IteratorOf<T, Numbered<T>, NoOptions> {
 public:
  using IteratorOf<T, Numbered<T>, NoOptions>::IteratorOf;

  static std::optional<std::int64_t> size(const Stage<T>& upstream, const NoOptions&) { return upstream.size(); }

  Next<Numbered<T>> produce() override {
    auto element = this->upstream_->next();
    if (!element) return failure(element.error());
    if (!*element) return std::nullopt;
    return Numbered<T>{this->epoch_, number_++, std::move(**element)};
  }
  Result<bool> pass_over(std::int64_t count) override {
    number_ += count;
    return this->upstream_->skip(count);
  }
  State save() const override {
    State state = this->upstream_->save();
    state.push("numbered.number", number_);
    return state;
  }
  Status resume(State state) override {
    const auto number = state.pop("numbered.number");
    if (!number) return failure(number.error());
    number_ = *number;
    return this->upstream_->restore(std::move(state));
  }

 protected:
  void describe(StageReport& mine) const override { mine.name = "numbered"; }

 private:
  std::int64_t number_ = 0;
};

}  // namespace detail

template <class T>
StagePtr<Numbered<T>> numbered(StagePtr<T> upstream) {
  using Made = detail::StageOf<detail::NumberedIterator<T>, T, Numbered<T>, detail::NoOptions>;
  return std::make_shared<Made>(std::move(upstream), detail::NoOptions{});
}

template <class T>
StagePtr<T> shuffle(StagePtr<T> upstream, std::size_t buffer, std::uint64_t seed) {
  if (buffer <= 1) return upstream;
  using Made = detail::StageOf<detail::ShuffleIterator<T>, T, T, detail::ShuffleOptions>;
  return std::make_shared<Made>(std::move(upstream), detail::ShuffleOptions{buffer, seed});
}

template <class T>
StagePtr<T> shard(StagePtr<T> upstream, int rank, int size) {
  using Made = detail::StageOf<detail::ShardIterator<T>, T, T, detail::ShardOptions>;
  return std::make_shared<Made>(std::move(upstream), detail::ShardOptions{rank, std::max(size, 1)});
}

template <class T>
StagePtr<T> take(StagePtr<T> upstream, std::int64_t count) {
  using Made = detail::StageOf<detail::TakeIterator<T>, T, T, detail::TakeOptions>;
  return std::make_shared<Made>(std::move(upstream), detail::TakeOptions{0, std::max<std::int64_t>(count, 0)});
}

template <class T>
StagePtr<T> skip(StagePtr<T> upstream, std::int64_t count) {
  using Made = detail::StageOf<detail::TakeIterator<T>, T, T, detail::TakeOptions>;
  return std::make_shared<Made>(std::move(upstream), detail::TakeOptions{std::max<std::int64_t>(count, 0), -1});
}

template <class T>
StagePtr<T> filter(StagePtr<T> upstream, std::function<Result<bool>(const T&)> wanted) {
  using Made = detail::StageOf<detail::FilterIterator<T>, T, T, detail::Predicate<T>>;
  return std::make_shared<Made>(std::move(upstream), std::move(wanted));
}

}  // namespace xoe::data
