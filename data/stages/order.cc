// Stages that choose elements and their order.
#include <algorithm>
#include <functional>

#include "data/stages/iterator_base.h"
#include "xoe/data/stages.h"

namespace xoe::data::detail {
namespace {

struct ShuffleOptions {
  std::size_t buffer;
  std::uint64_t seed;
};

class ShuffleIterator final : public Produces<ShuffleIterator, UpstreamIterator> {
 public:
  ShuffleIterator(AnyStagePtr upstream, const ElementType& type, std::int64_t epoch, ShuffleOptions options)
      : Produces("shuffle", std::move(upstream), type, epoch, std::vector<Field>{}), options_(options), buffer_(type) {}

  Result<bool> produce(Slot& slot) override {
    while (!ended_ && buffer_.size() < options_.buffer) {
      XOE_ASSIGN(const bool there, buffer_.pull(*upstream_));
      ended_ = !there;
    }
    if (buffer_.size() == 0) return false;
    const std::uint64_t draw = data::mix(options_.seed, static_cast<std::uint64_t>(epoch_), drawn_++);
    buffer_.give_any(draw % buffer_.size(), slot);
    return true;
  }
  State save() const override {
    State state;
    state.push("shuffle.position", static_cast<std::int64_t>(drawn_));
    return state;
  }
  Status resume(State state) override {
    XOE_ASSIGN(const std::int64_t position, state.pop("shuffle.position"));
    buffer_.clear();
    ended_ = false;
    drawn_ = 0;
    XOE_TRY(open());
    XOE_ASSIGN(const bool there, pass_over(position));
    if (there) return {};
    return failure(Code::kInvalidArgument, "shuffle: the saved position is past the end of the epoch");
  }

 private:
  ShuffleOptions options_;
  ElementList buffer_;
  bool ended_ = false;
  std::uint64_t drawn_ = 0;
};

struct ShardOptions {
  int rank;
  int size;
};

class ShardIterator final : public Produces<ShardIterator, UpstreamIterator> {
 public:
  ShardIterator(AnyStagePtr upstream, const ElementType& type, std::int64_t epoch, ShardOptions options)
      : Produces("shard", std::move(upstream), type, epoch, std::vector<Field>{{"shard.started", &started_}}),
        options_(options) {}

  static std::optional<std::int64_t> size(const AnyStage& upstream, const ShardOptions& options) {
    const auto total = upstream.size();
    if (!total) return std::nullopt;
    return plan_shard(*total, options.rank, options.size, 1, Remainder::kKeep).elements;
  }

  Result<bool> produce(Slot& slot) override {
    const int others = started_ != 0 ? options_.size - 1 : options_.rank;
    started_ = 1;
    if (others > 0) {
      XOE_ASSIGN(const bool there, upstream_->skip(others));
      if (!there) return false;
    }
    return upstream_->pull(slot);
  }

 private:
  ShardOptions options_;
  std::int64_t started_ = 0;
};

struct SliceOptions {
  std::int64_t skip;  // first
  std::int64_t take;  // then; negative: all
};

class SliceIterator final : public Produces<SliceIterator, UpstreamIterator> {
 public:
  SliceIterator(AnyStagePtr upstream, const ElementType& type, std::int64_t epoch, SliceOptions options)
      : Produces(options.take < 0 ? "skip" : "take", std::move(upstream), type, epoch,
                 std::vector<Field>{{"take.skipped", &skipped_}, {"take.taken", &taken_}}),
        options_(options) {}

  static std::optional<std::int64_t> size(const AnyStage& upstream, const SliceOptions& options) {
    const auto total = upstream.size();
    if (!total) return std::nullopt;
    const std::int64_t left = std::max<std::int64_t>(*total - options.skip, 0);
    return options.take < 0 ? left : std::min(left, options.take);
  }

  Result<bool> produce(Slot& slot) override {
    if (taken_ == options_.take) return false;
    if (skipped_ == 0 && options_.skip > 0) {
      XOE_TRY(upstream_->skip(options_.skip));
      skipped_ = 1;
    }
    Result<bool> there = upstream_->pull(slot);
    if (there && *there) ++taken_;
    return there;
  }

 private:
  SliceOptions options_;
  std::int64_t taken_ = 0;
  std::int64_t skipped_ = 0;
};

using Predicate = std::function<Result<bool>(const void* element)>;

class FilterIterator final : public Produces<FilterIterator, UpstreamIterator> {
 public:
  FilterIterator(AnyStagePtr upstream, const ElementType& type, std::int64_t epoch, Predicate wanted)
      : Produces("filter", std::move(upstream), type, epoch, std::vector<Field>{{"filter.position", &position_}}),
        wanted_(std::move(wanted)) {}

  static std::optional<std::int64_t> size(const AnyStage&, const Predicate&) { return std::nullopt; }

  Result<bool> produce(Slot& slot) override {
    for (;;) {
      Result<bool> there = upstream_->pull(slot);
      if (!there || !*there) return there;
      Result<bool> wanted = caught([&] { return wanted_(slot.at); });
      ++position_;
      if (wanted && *wanted) return wanted;
      destroy_element(type_, slot.at);
      if (!wanted) return element_failure("filter", epoch_, position_ - 1, wanted.error());
    }
  }

 private:
  Predicate wanted_;
  std::int64_t position_ = 0;  // in the upstream, for messages
};

class NumberedIterator final : public Produces<NumberedIterator, UpstreamIterator> {
 public:
  NumberedIterator(AnyStagePtr upstream, const ElementType& type, std::int64_t epoch, Number number)
      : Produces("numbered", std::move(upstream), type, epoch, std::vector<Field>{{"numbered.number", &number_}}),
        number_next_(number) {}

  Result<bool> produce(Slot& slot) override {
    const Next next = number_next_(*upstream_, epoch_, number_, slot);
    if (next == Next::kError) return failure(std::move(*slot.error));
    if (next == Next::kEnd) return false;
    ++number_;
    return true;
  }
  Result<bool> pass_over(std::int64_t count) override {
    number_ += count;
    return upstream_->skip(count);
  }

 private:
  Number number_next_;
  std::int64_t number_ = 0;
};

class RepeatIterator final : public Produces<RepeatIterator, UpstreamIterator> {
 public:
  RepeatIterator(AnyStagePtr upstream, const ElementType& type, std::int64_t epoch, std::int64_t epochs)
      : Produces("repeat", std::move(upstream), type, epoch,
                 std::vector<Field>{{"repeat.started", &started_}, {"repeat.epoch", &epoch_}}),
        epochs_(epochs) {}

  static std::optional<std::int64_t> size(const AnyStage& upstream, std::int64_t epochs) {
    const auto elements = upstream.size();
    if (!elements || epochs == 0) return std::nullopt;
    return *elements * epochs;
  }

  Status open() override { return past_end() ? Status() : UpstreamIterator::open(); }

  Result<bool> produce(Slot& slot) override {
    while (!past_end()) {
      Result<bool> there = upstream_->pull(slot);
      if (!there || *there) {
        started_ = 1;
        return there;
      }
      if (started_ == 0) return failure(Code::kInvalidArgument, "repeat: an epoch without elements");
      started_ = 0;
      ++epoch_;
      XOE_TRY(open());
    }
    return false;
  }
  State save() const override { return with_fields(!past_end() && upstream_.is_open() ? upstream_->save() : State()); }
  Status resume(State state) override {
    XOE_TRY(take_fields(state));
    XOE_TRY(open());
    upstream_.forget_past();
    return past_end() ? Status() : upstream_->restore(std::move(state));
  }

 private:
  bool past_end() const { return epochs_ != 0 && epoch_ >= epochs_; }

  std::int64_t epochs_;
  std::int64_t started_ = 0;  // this epoch gave an element
};

}  // namespace

AnyStagePtr shuffle(const AnyStagePtr& upstream, std::size_t buffer, std::uint64_t seed) {
  return make_stage<ShuffleIterator>(upstream, upstream->element_type(), ShuffleOptions{buffer, seed});
}
AnyStagePtr shard(const AnyStagePtr& upstream, int rank, int size) {
  return make_stage<ShardIterator>(upstream, upstream->element_type(), ShardOptions{rank, std::max(size, 1)});
}
AnyStagePtr slice(const AnyStagePtr& upstream, std::int64_t skip, std::int64_t take) {
  return make_stage<SliceIterator>(upstream, upstream->element_type(), SliceOptions{skip, take});
}
AnyStagePtr filter(const AnyStagePtr& upstream, Predicate wanted) {
  return make_stage<FilterIterator>(upstream, upstream->element_type(), std::move(wanted));
}
AnyStagePtr repeat(const AnyStagePtr& upstream, std::int64_t epochs) {
  return make_stage<RepeatIterator>(upstream, upstream->element_type(), epochs);
}
AnyStagePtr numbered(AnyStagePtr upstream, const ElementType& type, Number number) {
  return make_stage<NumberedIterator>(std::move(upstream), type, number);
}

}  // namespace xoe::data::detail
