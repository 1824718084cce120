// Included by stages.h: how elements are dealt to ranks in equal batches.
#pragma once

#include <algorithm>

#include "xoe/data/detail/iterator_base_inl.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace detail {

// The position is how far all ranks together are in the common order, so it means the same on every rank and can be
// taken up by any number of them.
template <class T>
class ShardBatchesIterator final : public IteratorBase<Batch<T>> {
 public:
  ShardBatchesIterator(CommonOrder<T> order, ShardBatchesOptions options, std::int64_t epoch)
      : order_(std::move(order)), options_(options), epoch_(epoch) {}

  Status open(int ranks, std::int64_t consumed, std::int64_t index) {
    stage_ = order_(ranks);
    const auto total = stage_->size();
    if (!total) return failure(Code::kInvalidArgument, "shard_batches: the number of elements must be known");
    if (consumed < 0 || consumed > *total || index < 0 || ranks < 1)
      return failure(Code::kInvalidArgument, "shard_batches: the saved position is past the end of the epoch");
    ranks_ = ranks;
    total_ = *total;
    start_ = consumed;
    index_ = index;
    made_ = 0;
    plan_ = plan_shard(total_ - start_, options_.rank, options_.size, options_.batch, options_.remainder);
    return reopen(start_);
  }

  Next<Batch<T>> produce() override {
    if (made_ == plan_.batches) return std::nullopt;
    Batch<T> made{.epoch = epoch_, .index = index_, .elements = {}};
    const std::int64_t first = made_ * options_.batch;
    const std::int64_t end = std::min(first + options_.batch, plan_.elements);
    made.elements.reserve(static_cast<std::size_t>(std::max<std::int64_t>(end - first, 0)));
    for (std::int64_t i = first; i < end; ++i) {
      auto element = at(start_ + options_.rank + i * options_.size);
      if (!element) return failure(element.error());
      made.elements.push_back(std::move(*element));
    }
    ++made_;
    ++index_;
    return made;
  }
  State save() const override {
    State state;
    state.push("deal.to", ranks_);
    state.push("deal.consumed", std::min(total_, start_ + made_ * options_.batch * options_.size));
    state.push("deal.index", index_);
    return state;
  }
  Status resume(State state) override {
    const auto index = state.pop("deal.index");
    if (!index) return failure(index.error());
    const auto consumed = state.pop("deal.consumed");
    if (!consumed) return failure(consumed.error());
    const auto ranks = state.pop("deal.to");
    if (!ranks) return failure(ranks.error());
    if (*ranks < 1 || *ranks > INT32_MAX)
      return failure(Code::kInvalidArgument,
                     "shard_batches: the saved position is of " + std::to_string(*ranks) + " ranks");
    const Status opened = open(static_cast<int>(*ranks), *consumed, *index);
    upstream_.forget_past();
    return opened;
  }

 protected:
  std::vector<StageReport> inputs() const override { return upstream_.stages(); }
  void describe(StageReport& mine) const override { mine.name = "shard_batches"; }

 private:
  Status reopen(std::int64_t position) {
    auto opened = stage_->iterate(epoch_);
    if (!opened) return failure(opened.error());
    upstream_ = std::move(*opened);
    pulled_ = 0;
    return advance(position);
  }
  Status advance(std::int64_t position) {
    const auto there = upstream_->skip(position - pulled_);
    if (!there) return failure(there.error());
    if (!*there) return failure(Code::kInternal, "shard_batches: the upstream has fewer elements than its size()");
    pulled_ = position;
    return {};
  }
  // Element `position` of the common order; past its end it wraps (Remainder::kPad).
  Result<T> at(std::int64_t position) {
    position %= total_;
    if (position < pulled_) {
      if (auto opened = reopen(position); !opened) return failure(opened.error());
    } else if (auto there = advance(position); !there) {
      return failure(there.error());
    }
    auto element = upstream_->next();
    if (!element) return failure(element.error());
    if (!*element) return failure(Code::kInternal, "shard_batches: the upstream has fewer elements than its size()");
    ++pulled_;
    return std::move(**element);
  }

  CommonOrder<T> order_;
  ShardBatchesOptions options_;
  std::int64_t epoch_;
  StagePtr<T> stage_;
  Reopened<T> upstream_;
  int ranks_ = 1;  // ranks, when this epoch began
  std::int64_t total_ = 0;
  std::int64_t start_ = 0;  // position from which `plan_` counts
  ShardPlan plan_;
  std::int64_t made_ = 0;    // batches of the plan
  std::int64_t index_ = 0;   // of the next batch in the epoch
  std::int64_t pulled_ = 0;  // position of the upstream
};

template <class T>
class ShardBatchesStage final : public Stage<Batch<T>> {
 public:
  ShardBatchesStage(CommonOrder<T> order, ShardBatchesOptions options) : order_(std::move(order)), options_(options) {}

  Result<IteratorPtr<Batch<T>>> iterate(std::int64_t epoch) const override {
    if (options_.size < 1 || options_.rank < 0 || options_.rank >= options_.size || options_.batch < 1)
      return failure(Code::kInvalidArgument, "shard_batches: rank " + std::to_string(options_.rank) + " of " +
                                                 std::to_string(options_.size) + ", batches of " +
                                                 std::to_string(options_.batch));
    auto iterator = std::make_unique<ShardBatchesIterator<T>>(order_, options_, epoch);
    if (auto opened = iterator->open(options_.size, 0, 0); !opened) return failure(opened.error());
    return iterator;
  }
  std::optional<std::int64_t> size() const override {
    const auto total = order_(options_.size)->size();
    if (!total) return std::nullopt;
    return plan_shard(*total, options_.rank, options_.size, options_.batch, options_.remainder).batches;
  }

 private:
  CommonOrder<T> order_;
  ShardBatchesOptions options_;
};

}  // namespace detail

template <class T>
StagePtr<Batch<T>> shard_batches(CommonOrder<T> order, ShardBatchesOptions options) {
  return std::make_shared<detail::ShardBatchesStage<T>>(std::move(order), options);
}

template <class T>
StagePtr<Batch<T>> shard_batches(StagePtr<T> upstream, ShardBatchesOptions options) {
  return shard_batches<T>(CommonOrder<T>([upstream = std::move(upstream)](int) { return upstream; }), options);
}

}  // namespace xoe::data
