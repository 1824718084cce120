// Included by stages.h: what all stages are built from, lists, batches, epochs.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "xoe/data/detail/iterator_base_inl.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace detail {

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
class IteratorOf : public IteratorBase<U> {
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
  std::vector<StageReport> inputs() const override { return upstream_.stages(); }

  StagePtr<T> stage_;
  std::int64_t epoch_;
  Options options_;
  Reopened<T> upstream_;
};

template <class T>
class VectorStage final : public Stage<T> {
 public:
  explicit VectorStage(std::vector<T> elements)
      : elements_(std::make_shared<const std::vector<T>>(std::move(elements))) {}

  Result<IteratorPtr<T>> iterate(std::int64_t) const override { return std::make_unique<Walk>(elements_); }
  std::optional<std::int64_t> size() const override { return static_cast<std::int64_t>(elements_->size()); }

 private:
  class Walk final : public Positioned<T> {
   public:
    explicit Walk(std::shared_ptr<const std::vector<T>> elements)
        : Positioned<T>("vector"), elements_(std::move(elements)) {}

    Next<T> produce() override {
      if (this->position_ == count()) return std::nullopt;
      return (*elements_)[static_cast<std::size_t>(this->position_++)];
    }
    Result<bool> pass_over(std::int64_t elements) override { return this->jump(elements, count()); }
    Status rewind() override { return {}; }

   private:
    std::int64_t count() const { return static_cast<std::int64_t>(elements_->size()); }

    std::shared_ptr<const std::vector<T>> elements_;
  };

  std::shared_ptr<const std::vector<T>> elements_;
};

struct BatchOptions {
  std::int64_t batch;
  Remainder remainder;
};

template <class T>
class BatchIterator final : public IteratorOf<T, Batch<T>, BatchOptions> {
 public:
  using IteratorOf<T, Batch<T>, BatchOptions>::IteratorOf;

  static std::optional<std::int64_t> size(const Stage<T>& upstream, const BatchOptions& options) {
    const auto elements = upstream.size();
    if (!elements) return std::nullopt;
    const bool rounds_up = options.remainder != Remainder::kDrop;
    return (*elements + (rounds_up ? options.batch - 1 : 0)) / options.batch;
  }

  Next<Batch<T>> produce() override {
    Batch<T> made{.epoch = this->epoch_, .index = made_, .elements = {}};
    if (auto filled = fill(made, *this->upstream_); !filled) return failure(filled.error());
    if (made.elements.empty()) return std::nullopt;
    if (!full(made) && this->options_.remainder == Remainder::kDrop) return std::nullopt;
    while (!full(made) && this->options_.remainder == Remainder::kPad) {
      auto again = this->stage_->iterate(this->epoch_);
      if (!again) return failure(again.error());
      if (auto filled = fill(made, **again); !filled) return failure(filled.error());
    }
    ++made_;
    return made;
  }
  State save() const override {
    State state = this->upstream_->save();
    state.push("batch.made", made_);
    return state;
  }
  Status resume(State state) override {
    const auto made = state.pop("batch.made");
    if (!made) return failure(made.error());
    made_ = *made;
    return this->upstream_->restore(std::move(state));
  }

 protected:
  void describe(StageReport& mine) const override { mine.name = "batch"; }

 private:
  bool full(const Batch<T>& made) const {
    return static_cast<std::int64_t>(made.elements.size()) >= this->options_.batch;
  }
  Status fill(Batch<T>& made, Iterator<T>& from) {
    while (!full(made)) {
      auto element = from.next();
      if (!element) return failure(element.error());
      if (!*element) break;
      made.elements.push_back(std::move(**element));
    }
    return {};
  }

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

  Next<T> produce() override {
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
    if (!past_end() && this->upstream_ != nullptr) state = this->upstream_->save();
    state.push("repeat.started", started_ ? 1 : 0);
    state.push("repeat.epoch", this->epoch_);
    return state;
  }
  Status resume(State state) override {
    const auto epoch = state.pop("repeat.epoch");
    if (!epoch) return failure(epoch.error());
    const auto started = state.pop("repeat.started");
    if (!started) return failure(started.error());
    this->epoch_ = *epoch;
    started_ = *started != 0;
    if (auto opened = open(); !opened) return opened;
    this->upstream_.forget_past();
    return past_end() ? Status{} : this->upstream_->restore(std::move(state));
  }

 protected:
  void describe(StageReport& mine) const override { mine.name = "repeat"; }

 private:
  bool past_end() const { return this->options_.epochs != 0 && this->epoch_ >= this->options_.epochs; }

  bool started_ = false;  // this epoch gave an element
};

}  // namespace detail

template <class T>
StagePtr<T> from_vector(std::vector<T> elements) {
  return std::make_shared<detail::VectorStage<T>>(std::move(elements));
}

template <class T>
StagePtr<Batch<T>> batch(StagePtr<T> upstream, int batch, Remainder remainder) {
  using Made = detail::StageOf<detail::BatchIterator<T>, T, Batch<T>, detail::BatchOptions>;
  return std::make_shared<Made>(std::move(upstream), detail::BatchOptions{std::max(batch, 1), remainder});
}

template <class T>
StagePtr<T> repeat(StagePtr<T> upstream, std::int64_t epochs) {
  using Made = detail::StageOf<detail::RepeatIterator<T>, T, T, detail::RepeatOptions>;
  return std::make_shared<Made>(std::move(upstream), detail::RepeatOptions{epochs});
}

}  // namespace xoe::data
