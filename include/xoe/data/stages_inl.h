// Included by stages.h: how its stages work.
#pragma once

#include <algorithm>

#include "xoe/data/stages.h"

namespace xoe::data {
namespace detail {

template <class T>
using IteratorPtr = std::unique_ptr<Iterator<T>>;
template <class T>
using Next = Result<std::optional<T>>;

// A stage whose iterators need the upstream stage, the epoch and a few options.
template <class Made, class T, class U, class Options>
class StageOf final : public Stage<U> {
 public:
  StageOf(StagePtr<T> upstream, Options options) : upstream_(std::move(upstream)), options_(std::move(options)) {}

  Result<IteratorPtr<U>> iterate(std::int64_t epoch) const override {
    auto iterator = std::make_unique<Made>(upstream_, epoch, options_);
    if (auto opened = iterator->open(); !opened) return failure(opened.error());
    return iterator;
  }
  std::optional<std::int64_t> size() const override { return Made::size(*upstream_, options_); }

 private:
  StagePtr<T> upstream_;
  Options options_;
};

template <class T, class U, class Options>
class IteratorOf : public Iterator<U> {
 public:
  IteratorOf(StagePtr<T> upstream, std::int64_t epoch, Options options)
      : stage_(std::move(upstream)), epoch_(epoch), options_(std::move(options)) {}

  virtual Status open() {
    auto opened = stage_->iterate(epoch_);
    if (!opened) return failure(opened.error());
    upstream_ = std::move(*opened);
    return {};
  }

 protected:
  StagePtr<T> stage_;
  std::int64_t epoch_;
  Options options_;
  IteratorPtr<T> upstream_;
};

template <class T>
class VectorStage final : public Stage<T> {
 public:
  explicit VectorStage(std::vector<T> elements)
      : elements_(std::make_shared<const std::vector<T>>(std::move(elements))) {}

  Result<IteratorPtr<T>> iterate(std::int64_t) const override { return std::make_unique<Walk>(elements_); }
  std::optional<std::int64_t> size() const override { return static_cast<std::int64_t>(elements_->size()); }

 private:
  class Walk final : public Iterator<T> {
   public:
    explicit Walk(std::shared_ptr<const std::vector<T>> elements) : elements_(std::move(elements)) {}

    Next<T> next() override {
      if (position_ == elements_->size()) return std::nullopt;
      return (*elements_)[position_++];
    }
    State save() const override {
      State state;
      state.push("vector.position", static_cast<std::int64_t>(position_));
      return state;
    }
    Status restore(State state) override {
      const auto position = state.pop("vector.position");
      if (!position) return failure(position.error());
      position_ = std::min(static_cast<std::size_t>(std::max<std::int64_t>(*position, 0)), elements_->size());
      return {};
    }

   private:
    std::shared_ptr<const std::vector<T>> elements_;
    std::size_t position_ = 0;
  };

  std::shared_ptr<const std::vector<T>> elements_;
};

struct ShuffleOptions {
  std::size_t buffer;
  std::uint64_t seed;
};

template <class T>
class ShuffleIterator final : public IteratorOf<T, T, ShuffleOptions> {
 public:
  using IteratorOf<T, T, ShuffleOptions>::IteratorOf;

  static std::optional<std::int64_t> size(const Stage<T>& upstream, const ShuffleOptions&) { return upstream.size(); }

  Next<T> next() override {
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
  Status restore(State state) override {
    const auto position = state.pop("shuffle.position");
    if (!position) return failure(position.error());
    buffer_.clear();
    ended_ = false;
    drawn_ = 0;
    if (auto opened = this->open(); !opened) return opened;
    while (static_cast<std::int64_t>(drawn_) < *position) {
      auto element = next();
      if (!element) return failure(element.error());
      if (!*element) return failure(Code::kInvalidArgument, "shuffle: the saved position is past the end of the epoch");
    }
    return {};
  }

 private:
  std::vector<T> buffer_;
  bool ended_ = false;
  std::uint64_t drawn_ = 0;
};

struct ShardOptions {
  ShardPlan plan;
  int rank;
  int size;
};

template <class T>
class ShardIterator final : public IteratorOf<T, T, ShardOptions> {
 public:
  using IteratorOf<T, T, ShardOptions>::IteratorOf;

  static std::optional<std::int64_t> size(const Stage<T>&, const ShardOptions& options) {
    return options.plan.elements;
  }

  Next<T> next() override {
    if (taken_ == this->options_.plan.elements) return std::nullopt;
    const std::int64_t wanted = this->options_.rank + taken_ * this->options_.size;
    for (;;) {
      auto element = pull();
      if (!element) return element;
      if (pulled_++ < wanted) continue;
      ++taken_;
      return element;
    }
  }
  State save() const override {
    State state = this->upstream_->save();
    state.push("shard.taken", taken_);
    return state;
  }
  Status restore(State state) override {
    const auto taken = state.pop("shard.taken");
    if (!taken) return failure(taken.error());
    if (*taken < 0 || *taken > this->options_.plan.elements)
      return failure(Code::kInvalidArgument, "shard: the saved position is past the end of the epoch");
    taken_ = *taken;
    pulled_ = taken_ == 0 ? 0 : this->options_.rank + (taken_ - 1) * this->options_.size + 1;
    return this->upstream_->restore(std::move(state));
  }

 private:
  // Past the end it starts again; the plan says how far that goes.
  Next<T> pull() {
    auto element = this->upstream_->next();
    if (!element || *element) return element;
    if (auto opened = this->open(); !opened) return failure(opened.error());
    element = this->upstream_->next();
    if (element && !*element) return failure(Code::kInternal, "shard: the upstream has fewer elements than its size()");
    return element;
  }

  std::int64_t taken_ = 0;
  std::int64_t pulled_ = 0;
};

struct BatchOptions {
  std::int64_t batch;
  std::int64_t batches;
};

template <class T>
class BatchIterator final : public IteratorOf<T, Batch<T>, BatchOptions> {
 public:
  using IteratorOf<T, Batch<T>, BatchOptions>::IteratorOf;

  static std::optional<std::int64_t> size(const Stage<T>& upstream, const BatchOptions& options) {
    const auto elements = upstream.size();
    if (!elements) return std::nullopt;
    return std::max((*elements + options.batch - 1) / options.batch, options.batches);
  }

  Next<Batch<T>> next() override {
    Batch<T> made{.epoch = this->epoch_, .index = made_, .elements = {}};
    while (static_cast<std::int64_t>(made.elements.size()) < this->options_.batch) {
      auto element = this->upstream_->next();
      if (!element) return failure(element.error());
      if (!*element) break;
      made.elements.push_back(std::move(**element));
    }
    if (made.elements.empty() && made_ >= this->options_.batches) return std::nullopt;
    ++made_;
    return made;
  }
  State save() const override {
    State state = this->upstream_->save();
    state.push("batch.made", made_);
    return state;
  }
  Status restore(State state) override {
    const auto made = state.pop("batch.made");
    if (!made) return failure(made.error());
    made_ = *made;
    return this->upstream_->restore(std::move(state));
  }

 private:
  std::int64_t made_ = 0;
};

struct RepeatOptions {
  std::int64_t epochs;
};

template <class T>
class RepeatIterator final : public IteratorOf<T, T, RepeatOptions> {
 public:
  using IteratorOf<T, T, RepeatOptions>::IteratorOf;

  static std::optional<std::int64_t> size(const Stage<T>& upstream, const RepeatOptions& options) {
    const auto elements = upstream.size();
    if (!elements || options.epochs == 0) return std::nullopt;
    return *elements * options.epochs;
  }

  Status open() override { return past_end() ? Status{} : IteratorOf<T, T, RepeatOptions>::open(); }

  Next<T> next() override {
    while (!past_end()) {
      auto element = this->upstream_->next();
      if (!element || *element) {
        started_ = true;
        return element;
      }
      if (!started_) return failure(Code::kInvalidArgument, "repeat: an epoch without elements");
      started_ = false;
      ++this->epoch_;
      if (auto opened = open(); !opened) return failure(opened.error());
    }
    return std::nullopt;
  }
  State save() const override {
    State state;
    if (!past_end()) state = this->upstream_->save();
    state.push("repeat.started", started_ ? 1 : 0);
    state.push("repeat.epoch", this->epoch_);
    return state;
  }
  Status restore(State state) override {
    const auto epoch = state.pop("repeat.epoch");
    if (!epoch) return failure(epoch.error());
    const auto started = state.pop("repeat.started");
    if (!started) return failure(started.error());
    this->epoch_ = *epoch;
    started_ = *started != 0;
    if (auto opened = open(); !opened) return opened;
    return past_end() ? Status{} : this->upstream_->restore(std::move(state));
  }

 private:
  bool past_end() const { return this->options_.epochs != 0 && this->epoch_ >= this->options_.epochs; }

  bool started_ = false;  // this epoch gave an element
};

template <class T, class U>
class MapIterator final : public IteratorOf<T, U, std::function<Result<U>(const T&)>> {
 public:
  using IteratorOf<T, U, std::function<Result<U>(const T&)>>::IteratorOf;

  static std::optional<std::int64_t> size(const Stage<T>& upstream, const std::function<Result<U>(const T&)>&) {
    return upstream.size();
  }

  Next<U> next() override {
    if (failed_) return failure(*failed_);
    auto element = this->upstream_->next();
    if (!element) return failure(element.error());
    if (!*element) return std::nullopt;
    Result<U> mapped = this->options_(**element);
    if (!mapped) {
      failed_ = mapped.error();
      return failure(*failed_);
    }
    return std::optional<U>(std::move(*mapped));
  }
  State save() const override { return this->upstream_->save(); }
  Status restore(State state) override {
    failed_.reset();
    return this->upstream_->restore(std::move(state));
  }

 private:
  std::optional<Error> failed_;
};

}  // namespace detail

template <class T>
StagePtr<T> from_vector(std::vector<T> elements) {
  return std::make_shared<detail::VectorStage<T>>(std::move(elements));
}

template <class T>
StagePtr<T> shuffle(StagePtr<T> upstream, std::size_t buffer, std::uint64_t seed) {
  if (buffer <= 1) return upstream;
  using Made = detail::StageOf<detail::ShuffleIterator<T>, T, T, detail::ShuffleOptions>;
  return std::make_shared<Made>(std::move(upstream), detail::ShuffleOptions{buffer, seed});
}

template <class T>
StagePtr<T> shard(StagePtr<T> upstream, int rank, int size, int batch, Remainder remainder) {
  const ShardPlan plan = plan_shard(upstream->size().value_or(0), rank, size, batch, remainder);
  using Made = detail::StageOf<detail::ShardIterator<T>, T, T, detail::ShardOptions>;
  return std::make_shared<Made>(std::move(upstream), detail::ShardOptions{plan, rank, size});
}

template <class T>
StagePtr<Batch<T>> batch(StagePtr<T> upstream, int batch, std::int64_t batches) {
  using Made = detail::StageOf<detail::BatchIterator<T>, T, Batch<T>, detail::BatchOptions>;
  return std::make_shared<Made>(std::move(upstream), detail::BatchOptions{batch, batches});
}

template <class T>
StagePtr<T> repeat(StagePtr<T> upstream, std::int64_t epochs) {
  using Made = detail::StageOf<detail::RepeatIterator<T>, T, T, detail::RepeatOptions>;
  return std::make_shared<Made>(std::move(upstream), detail::RepeatOptions{epochs});
}

template <class U, class T>
StagePtr<U> map(StagePtr<T> upstream, std::function<Result<U>(const T&)> f) {
  using Made = detail::StageOf<detail::MapIterator<T, U>, T, U, std::function<Result<U>(const T&)>>;
  return std::make_shared<Made>(std::move(upstream), std::move(f));
}

}  // namespace xoe::data

#include "xoe/data/prefetch_inl.h"
