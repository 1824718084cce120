// batch() and shard_batches().
#include <algorithm>
#include <tuple>

#include "core/base/shard_range.h"
#include "data/stages/iterator_base.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

ShardPlan plan_shard(std::int64_t total, int rank, int size, int batch, Remainder remainder) {
  return plan_joint_shard(total, rank, size, std::int64_t{size} * batch, remainder);
}

ShardPlan plan_joint_shard(std::int64_t total, int rank, int size, std::int64_t joint, Remainder remainder) {
  const std::int64_t mine = share_of(joint, rank, size);
  switch (remainder) {
    case Remainder::kDrop: return {total / joint * mine, total / joint};
    case Remainder::kPad: return {divide_up(total, joint) * mine, divide_up(total, joint)};
    case Remainder::kKeep: break;
  }
  return {total / joint * mine + share_of(total % joint, rank, size), divide_up(total, joint)};
}

std::int64_t share_of(std::int64_t count, int rank, int size) noexcept {
  return count > rank ? divide_up(count - rank, size) : 0;
}

namespace detail {
namespace {

constexpr std::size_t kMostExpected = 1024;  // elements that memory is reserved for before they come

// A batch that is being filled. It is destroyed again unless give() says that it is complete.
class Filling {
 public:
  Filling(const BatchType& type, Slot& slot, const BatchPlace& at, std::size_t expected) : type_(type), slot_(slot) {
    type.begin(slot, at, std::min(expected, kMostExpected));
  }
  ~Filling() {
    if (!given_) destroy_element(type_.type, slot_.at);
  }
  Filling(const Filling&) = delete;
  Filling& operator=(const Filling&) = delete;

  std::size_t size() const { return type_.info(slot_.at).size; }
  Result<bool> append(AnyIterator& from, std::size_t count) { return type_.append(slot_.at, from, count); }
  bool give() {
    slot_.bytes = bytes_of_element(type_.type, slot_.at);
    return given_ = true;
  }

 private:
  const BatchType& type_;
  Slot& slot_;
  bool given_ = false;
};

struct BatchOptions {
  const BatchType* type;
  std::size_t batch;
  Remainder remainder;
};

class BatchIterator final : public Produces<BatchIterator, UpstreamIterator> {
 public:
  BatchIterator(AnyStagePtr upstream, const ElementType& type, std::int64_t epoch, BatchOptions options)
      : Produces("batch", std::move(upstream), type, epoch, std::vector<Field>{{"batch.made", &made_}}),
        options_(options) {}

  static std::optional<std::int64_t> size(const AnyStage& upstream, const BatchOptions& options) {
    const auto elements = upstream.size();
    if (!elements) return std::nullopt;
    const auto batch = static_cast<std::int64_t>(options.batch);
    return options.remainder == Remainder::kDrop ? *elements / batch : divide_up(*elements, batch);
  }

  Result<bool> produce(Slot& slot) override {
    Filling batch(*options_.type, slot, {.epoch = epoch_, .index = made_, .left = -1}, options_.batch);
    XOE_ASSIGN(bool full, batch.append(*upstream_, options_.batch));
    if (batch.size() == 0 || (!full && options_.remainder == Remainder::kDrop)) return false;
    while (!full && options_.remainder == Remainder::kPad) {
      XOE_ASSIGN(const auto again, stage_->iterate_any(epoch_));
      XOE_ASSIGN(full, batch.append(*again, options_.batch - batch.size()));
    }
    ++made_;
    return batch.give();
  }

 private:
  BatchOptions options_;
  std::int64_t made_ = 0;
};

using Order = std::function<AnyStagePtr(int size)>;

// The position is how far all ranks together are in the common order, so it means the same on every rank, and any
// number of them can continue from it.
class ShardBatchesIterator final : public Produces<ShardBatchesIterator> {
 public:
  ShardBatchesIterator(Order order, const BatchType& type, ShardBatchesOptions options, std::int64_t epoch)
      : Produces("shard_batches", type.type),
        order_(std::move(order)),
        batch_type_(type),
        options_(options),
        epoch_(epoch) {}

  Status open() { return open(options_.size, 0, 0); }
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
    plan_ = plan_joint_shard(total_ - start_, options_.rank, options_.size, joint(), options_.remainder);
    return reopen(start_);
  }

  Result<bool> produce(Slot& slot) override {
    if (made_ == plan_.batches) return false;
    const std::int64_t first = start_ + made_ * joint();
    const bool is_short = options_.remainder == Remainder::kKeep && total_ - first < joint();
    const Positions mine = positions_in(is_short ? total_ - first : joint());
    Filling batch(batch_type_, slot, {.epoch = epoch_, .index = index_, .left = plan_.batches - made_ - 1},
                  static_cast<std::size_t>(mine.count));
    for (std::int64_t i = 0; i < mine.count; ++i) XOE_TRY(append(batch, first + mine.begin + i * mine.stride));
    ++made_;
    ++index_;
    return batch.give();
  }
  // The names are those of the stage's first days: positions of all versions are read.
  State save() const override {
    State state;
    state.push("deal.to", ranks_);
    state.push("deal.consumed", std::min(total_, start_ + made_ * joint()));
    state.push("deal.index", index_);
    return state;
  }
  Status resume(State state) override {
    XOE_ASSIGN(const std::int64_t index, state.pop("deal.index"));
    XOE_ASSIGN(const std::int64_t consumed, state.pop("deal.consumed"));
    XOE_ASSIGN(const std::int64_t ranks, state.pop("deal.to"));
    if (ranks < 1 || ranks > INT32_MAX)
      return failure(Code::kInvalidArgument, "shard_batches: the saved position is of {} ranks", ranks);
    Status opened = open(static_cast<int>(ranks), consumed, index);
    upstream_.forget_past();
    return opened;
  }

 private:
  std::int64_t joint() const noexcept {
    return options_.joint > 0 ? options_.joint : std::int64_t{options_.size} * options_.batch;
  }
  // This rank's elements of `count` that all ranks take together.
  struct Positions {
    std::int64_t begin, stride, count;
  };
  Positions positions_in(std::int64_t count) const noexcept {
    const auto [rank, size, shards] = std::tuple(options_.rank, options_.size, options_.shards);
    if (shards == 0) return {rank, size, share_of(count, rank, size)};
    const ElementRange mine = elements_of_shards(count, shards, shards_of_rank(shards, rank, size));
    return {mine.begin, 1, mine.count()};
  }
  std::vector<StageReport> inputs() const override { return upstream_.stages(); }
  static tl::unexpected<Error> too_few() {
    return failure(Code::kInternal, "shard_batches: the upstream has fewer elements than its size()");
  }
  Status reopen(std::int64_t position) {
    XOE_ASSIGN(upstream_, stage_->iterate_any(epoch_));
    pulled_ = 0;
    return advance(position);
  }
  Status advance(std::int64_t position) {
    if (position == pulled_) return {};
    XOE_ASSIGN(const bool there, upstream_->skip(position - pulled_));
    if (!there) return too_few();
    pulled_ = position;
    return {};
  }
  // Element `position` of the common order; past its end it wraps (Remainder::kPad).
  Status append(Filling& batch, std::int64_t position) {
    position %= total_;
    XOE_TRY(position < pulled_ ? reopen(position) : advance(position));
    XOE_ASSIGN(const bool there, batch.append(*upstream_, 1));
    if (!there) return too_few();
    ++pulled_;
    return {};
  }

  Order order_;
  const BatchType& batch_type_;
  ShardBatchesOptions options_;
  std::int64_t epoch_;
  AnyStagePtr stage_;
  Upstream upstream_;
  int ranks_ = 1;  // when this epoch began
  std::int64_t total_ = 0;
  std::int64_t start_ = 0;  // position from which `plan_` counts
  ShardPlan plan_;
  std::int64_t made_ = 0;    // batches of the plan
  std::int64_t index_ = 0;   // of the next batch in the epoch
  std::int64_t pulled_ = 0;  // position of the upstream
};

}  // namespace

AnyStagePtr batch(AnyStagePtr upstream, const BatchType& type, int batch, Remainder remainder) {
  return make_stage<BatchIterator>(std::move(upstream), type.type,
                                   BatchOptions{&type, static_cast<std::size_t>(std::max(batch, 1)), remainder});
}
AnyStagePtr shard_batches(const Order& order, const BatchType& type, ShardBatchesOptions options) {
  return make_stage(
      type.type,
      [=, &type](std::int64_t epoch) -> Result<AnyIteratorPtr> {
        if (options.size < 1 || options.rank < 0 || options.rank >= options.size || options.batch < 1 ||
            options.joint < 0 || options.shards < 0 || (options.shards > 0 && options.shards < options.size))
          return failure(Code::kInvalidArgument, "shard_batches: rank {} of {}, batches of {}", options.rank,
                         options.size, options.joint > 0 ? options.joint : options.batch);
        return opened<ShardBatchesIterator>(order, type, options, epoch);
      },
      [=]() -> std::optional<std::int64_t> {
        const auto total = order(options.size)->size();
        if (!total) return std::nullopt;
        const std::int64_t joint = options.joint > 0 ? options.joint : std::int64_t{options.size} * options.batch;
        return plan_joint_shard(*total, options.rank, options.size, joint, options.remainder).batches;
      });
}

}  // namespace detail
}  // namespace xoe::data
