#include "data/load/record_order.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/base/error.h"
#include "data/stages/iterator_base.h"
#include "data/stages/random.h"

namespace xoe::data {
namespace {

// Part of the list of all records, group by group.
struct Range {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

class GroupWalk final : public Produces<GroupWalk, PositionedIterator> {
 public:
  GroupWalk(std::shared_ptr<const ImageSource> source, std::vector<std::size_t> order, Range range, std::int64_t epoch)
      : Produces("records", kElementType<RecordRef>),
        source_(std::move(source)),
        order_(std::move(order)),
        range_(range),
        epoch_(epoch) {
    seek(0);
  }

  Result<bool> produce(Slot& slot) override {
    if (position_ == range_.end - range_.first) return false;
    while (within_ == length(group_)) {
      ++group_;
      within_ = 0;
    }
    ++position_;
    slot.put(RecordRef{epoch_, source_->first(order_[group_]) + within_++});
    return true;
  }

 private:
  Result<bool> pass_over(std::int64_t count) override {
    const bool there = jump(count, range_.end - range_.first);
    seek(position_);
    return there;
  }
  Status rewind() override {
    seek(0);
    return {};
  }

  std::int64_t length(std::size_t at) const { return source_->first(order_[at] + 1) - source_->first(order_[at]); }
  void seek(std::int64_t position) {
    position_ = position;
    within_ = range_.first + position;
    for (group_ = 0; group_ < order_.size() && within_ > length(group_); ++group_) within_ -= length(group_);
  }

  std::shared_ptr<const ImageSource> source_;
  std::vector<std::size_t> order_;  // of groups
  Range range_;
  std::int64_t epoch_;
  std::size_t group_ = 0;    // in order_
  std::int64_t within_ = 0;  // of that group
};

StagePtr<RecordRef> shuffled_groups(const std::shared_ptr<const ImageSource>& source,
                                    const ImagePipelineOptions& options, Range range) {
  const bool shuffled = options.training;
  const auto open = [=, seed = options.seed](std::int64_t epoch) -> Result<AnyIteratorPtr> {
    std::vector<std::size_t> order(source->groups());
    std::iota(order.begin(), order.end(), std::size_t{0});
    Random random(seed, static_cast<std::uint64_t>(epoch), order.size());
    for (std::size_t left = order.size(); shuffled && left > 1; --left)
      std::swap(order[left - 1], order[static_cast<std::size_t>(random.integer(0, static_cast<int>(left) - 1))]);
    return std::make_unique<GroupWalk>(source, std::move(order), range, epoch);
  };
  const auto list = detail::typed<RecordRef>(
      make_stage(kElementType<RecordRef>, open, [=] { return std::optional(range.end - range.first); }));
  return shuffled ? shuffle(list, static_cast<std::size_t>(options.shuffle_buffer), options.seed) : list;
}

// Numbers of records with the epoch that they are drawn for.
class RefWalk final : public AnyIterator {
 public:
  RefWalk(AnyIteratorPtr numbers, std::int64_t epoch) : numbers_(std::move(numbers)), epoch_(epoch) {}

  Next next_into(Slot& slot) override {
    detail::Pulled<std::int64_t> number(*numbers_);
    if (!number) return number.pass_on(slot);
    slot.put(RecordRef{epoch_, number.take()});
    return Next::kElement;
  }
  Result<bool> skip(std::int64_t count) override { return numbers_->skip(count); }
  State save() const override { return numbers_->save(); }
  Status restore(State state) override { return numbers_->restore(std::move(state)); }
  std::vector<StageReport> stages() const override { return numbers_->stages(); }

 private:
  AnyIteratorPtr numbers_;
  std::int64_t epoch_;
};

StagePtr<RecordRef> all_shuffled(std::int64_t records, std::uint64_t seed) {
  const auto numbers = shuffled_indices(records, seed);
  return detail::typed<RecordRef>(make_stage(
      kElementType<RecordRef>,
      [=](std::int64_t epoch) -> Result<AnyIteratorPtr> {
        XOE_ASSIGN(auto iterator, numbers->iterate_any(epoch));
        return std::make_unique<RefWalk>(std::move(iterator), epoch);
      },
      [=] { return numbers->size(); }));
}

// Takes one element of each lane in turn. The lanes have nearly equal lengths; the first ones may have one element
// more.
StagePtr<RecordRef> in_turns(std::vector<StagePtr<RecordRef>> lanes, std::int64_t records) {
  const InterleaveOptions options{.cycle_length = static_cast<int>(lanes.size())};
  const auto elements = interleave<RecordRef, StagePtr<RecordRef>>(
      from_vector(std::move(lanes)),
      [](const StagePtr<RecordRef>& lane) -> Result<StagePtr<RecordRef>> { return lane; }, options);
  return detail::typed<RecordRef>(make_stage(
      kElementType<RecordRef>, [=](std::int64_t epoch) { return elements->iterate_any(epoch); },
      [=] { return std::optional(records); }));
}

}  // namespace

std::uint64_t order_fingerprint(const ImageSource& source, const ImagePipelineOptions& options) {
  const bool all = options.shuffle_buffer >= source.records();  // any larger buffer is the same
  const std::uint64_t kind = !options.training ? 0 : all ? 1 : 2 + static_cast<std::uint64_t>(options.shuffle_buffer);
  std::uint64_t print = mix(kind, options.shard_by_file ? 1 : 0, options.training ? options.seed : 0);
  for (std::size_t group = 0; group < source.groups(); ++group)
    print = mix(print, static_cast<std::uint64_t>(source.first(group + 1)));
  return print;
}

CommonOrder<RecordRef> record_order(std::shared_ptr<const ImageSource> source, const ImagePipelineOptions& options) {
  const std::int64_t records = source->records();
  if (!options.shard_by_file) {
    const bool global = options.training && options.shuffle_buffer >= records;
    auto order = global ? all_shuffled(records, options.seed) : shuffled_groups(source, options, {0, records});
    return [order](int) { return order; };
  }
  return [source = std::move(source), options, records](int size) -> StagePtr<RecordRef> {
    std::vector<StagePtr<RecordRef>> lanes;
    std::int64_t first = 0;
    for (int lane = 0; lane < size; ++lane) {
      const std::int64_t end = first + plan_shard(records, lane, size, 1, Remainder::kKeep).elements;
      lanes.push_back(shuffled_groups(source, options, {first, end}));
      first = end;
    }
    return in_turns(std::move(lanes), records);
  };
}

}  // namespace xoe::data
