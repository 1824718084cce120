// Several stages as one, and elements that are kept.
#include <algorithm>
#include <mutex>
#include <utility>

#include "data/stages/iterator_base.h"
#include "xoe/data/stages.h"

namespace xoe::data::detail {
namespace {

class ZipIterator final : public Produces<ZipIterator> {
 public:
  ZipIterator(const ElementType& type, AnyIteratorPtr first, AnyIteratorPtr second, Pair pair)
      : Produces("zip", type), first_(std::move(first)), second_(std::move(second)), pair_next_(pair) {}

  Result<bool> produce(Slot& slot) override {
    if (ended_) return false;
    const Next next = pair_next_(*first_, *second_, slot);
    if (next == Next::kError) return failure(std::move(*slot.error));
    ended_ = next == Next::kEnd;
    return !ended_;
  }
  State save() const override {
    State state;
    state.push_group("zip.first", first_->save());
    state.push_group("zip.second", second_->save());
    state.push("zip.ended", ended_ ? 1 : 0);
    return state;
  }
  Status resume(State state) override {
    XOE_ASSIGN(const std::int64_t ended, state.pop("zip.ended"));
    XOE_ASSIGN(State second, state.pop_group("zip.second"));
    XOE_ASSIGN(State first, state.pop_group("zip.first"));
    ended_ = ended != 0;
    XOE_TRY(first_->restore(std::move(first)));
    return second_->restore(std::move(second));
  }

 private:
  std::vector<StageReport> inputs() const override {
    std::vector<StageReport> all = first_->stages();
    append_stages(all, second_->stages());
    return all;
  }
  AnyIteratorPtr first_;
  AnyIteratorPtr second_;
  Pair pair_next_;
  bool ended_ = false;
};

// Each element comes from one of several iterators: the base of concat and mix.
class PartsIterator : public IteratorBase {
 public:
  PartsIterator(std::string name, const ElementType& type, std::vector<AnyIteratorPtr> parts)
      : IteratorBase(std::move(name), type), parts_(std::move(parts)) {}

  State save() const override {
    State state;
    for (const auto& part : parts_) state.push_group("part", part->save());
    return state;
  }
  Status resume(State state) override {
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
      XOE_ASSIGN(State group, state.pop_group("part"));
      XOE_TRY((*part)->restore(std::move(group)));
    }
    return {};
  }

 protected:
  std::vector<StageReport> inputs() const override {
    std::vector<StageReport> all;
    for (const auto& part : parts_) append_stages(all, part->stages());
    return all;
  }

  std::vector<AnyIteratorPtr> parts_;
};

class ConcatIterator final : public Produces<ConcatIterator, PartsIterator> {
 public:
  using Produces::Produces;

  Result<bool> produce(Slot& slot) override {
    for (; at_ < parts_.size(); ++at_) {
      Result<bool> there = parts_[at_]->pull(slot);
      if (!there || *there) return there;
    }
    return false;
  }
  State save() const override {
    State state = PartsIterator::save();
    state.push("concat.part", static_cast<std::int64_t>(at_));
    return state;
  }
  Status resume(State state) override {
    XOE_ASSIGN(const std::int64_t at, state.pop("concat.part"));
    at_ = static_cast<std::size_t>(std::max<std::int64_t>(at, 0));
    return PartsIterator::resume(std::move(state));
  }

 private:
  std::size_t at_ = 0;
};

class MixIterator final : public Produces<MixIterator, PartsIterator> {
 public:
  MixIterator(const ElementType& type, std::vector<AnyIteratorPtr> parts, std::vector<double> weights,
              std::uint64_t key_of_seed, std::int64_t epoch)
      : Produces("mix", type, std::move(parts)),
        weights_(std::move(weights)),
        seed_(key_of_seed),
        epoch_(static_cast<std::uint64_t>(epoch)),
        left_(weights_) {}

  Result<bool> produce(Slot& slot) override {
    for (;;) {
      double total = 0;
      for (const double weight : left_) total += weight;
      if (total <= 0) return false;
      const std::size_t part = draw(total);
      Result<bool> there = parts_[part]->pull(slot);
      if (!there || *there) return there;
      left_[part] = 0;
    }
  }
  State save() const override {
    State state = PartsIterator::save();
    for (const double weight : left_) state.push("mix.ended", weight == 0 ? 1 : 0);
    state.push("mix.drawn", static_cast<std::int64_t>(drawn_));
    return state;
  }
  Status resume(State state) override {
    XOE_ASSIGN(const std::int64_t drawn, state.pop("mix.drawn"));
    drawn_ = static_cast<std::uint64_t>(drawn);
    for (std::size_t part = left_.size(); part-- > 0;) {
      XOE_ASSIGN(const std::int64_t ended, state.pop("mix.ended"));
      left_[part] = ended != 0 ? 0 : weights_[part];
    }
    return PartsIterator::resume(std::move(state));
  }

 private:
  std::size_t draw(double total) {
    double at = static_cast<double>(data::mix(seed_, epoch_, drawn_++) >> 11) * 0x1p-53 * total;
    std::size_t last = 0;
    for (std::size_t part = 0; part < left_.size(); ++part) {
      if (left_[part] <= 0) continue;
      last = part;
      if ((at -= left_[part]) < 0) return part;
    }
    return last;  // rounding left a crumb
  }

  std::vector<double> weights_;
  std::uint64_t seed_;
  std::uint64_t epoch_;
  std::vector<double> left_;  // weights; 0 once ended
  std::uint64_t drawn_ = 0;
};

using Parts = std::vector<AnyStagePtr>;

Result<std::vector<AnyIteratorPtr>> open_all(const Parts& parts, std::int64_t epoch) {
  std::vector<AnyIteratorPtr> all;
  for (const AnyStagePtr& part : parts) {
    XOE_ASSIGN(AnyIteratorPtr iterator, part->iterate_any(epoch));
    all.push_back(std::move(iterator));
  }
  return all;
}
std::optional<std::int64_t> total_size(const Parts& parts) {
  std::int64_t total = 0;
  for (const AnyStagePtr& part : parts) {
    const auto size = part->size();
    if (!size) return std::nullopt;
    total += *size;
  }
  return total;
}

// Elements of the upstream's epoch 0, shared by all iterators of a cache() and filled by the one that is ahead.
class CacheStore {
 public:
  CacheStore(AnyStagePtr upstream, Copy copy)
      : stage_(std::move(upstream)), copy_(copy), elements_(stage_->element_type()) {}

  const AnyStage& stage() const { return *stage_; }
  std::vector<StageReport> stages() const { return upstream_.stages(); }

  Result<bool> copy_to(std::size_t position, Slot& slot) {
    const std::lock_guard lock(mutex_);
    while (position >= elements_.size() && !ended_) {
      const Result<bool> there = pull();
      if (!there || !*there) upstream_ = nullptr;  // after an error the next caller tries again
      if (!there) return failure(there.error());
      ended_ = !*there;
    }
    if (position >= elements_.size()) return false;
    copy_(elements_.at(position), slot);
    return true;
  }

 private:
  Result<bool> pull() {
    if (!upstream_.is_open()) {
      XOE_ASSIGN(upstream_, stage_->iterate_any(0));
      XOE_ASSIGN(const bool there, upstream_->skip(static_cast<std::int64_t>(elements_.size())));
      if (!there) return failure(Code::kInternal, "cache: the upstream has fewer elements than before");
    }
    return elements_.pull(*upstream_);
  }

  AnyStagePtr stage_;
  Copy copy_;
  std::mutex mutex_;
  Upstream upstream_;
  ElementList elements_;
  bool ended_ = false;
};

class CacheIterator final : public Produces<CacheIterator, PositionedIterator> {
 public:
  explicit CacheIterator(std::shared_ptr<CacheStore> store)
      : Produces("cache", store->stage().element_type()), store_(std::move(store)) {}

  Result<bool> produce(Slot& slot) override {
    Result<bool> there = store_->copy_to(static_cast<std::size_t>(position_), slot);
    if (there && *there) ++position_;
    return there;
  }

 private:
  // A restore reads nothing: the end is found when an element is asked for.
  Status rewind() override {
    restoring_ = true;
    return {};
  }
  Result<bool> pass_over(std::int64_t count) override {
    if (!std::exchange(restoring_, false)) return IteratorBase::pass_over(count);
    position_ += count;
    return true;
  }
  std::vector<StageReport> inputs() const override { return store_->stages(); }

  std::shared_ptr<CacheStore> store_;
  bool restoring_ = false;
};

}  // namespace

AnyStagePtr zip(const AnyStagePtr& first, const AnyStagePtr& second, const ElementType& type, Pair pair) {
  return make_stage(
      type,
      [=, &type](std::int64_t epoch) -> Result<AnyIteratorPtr> {
        XOE_ASSIGN(AnyIteratorPtr one, first->iterate_any(epoch));
        XOE_ASSIGN(AnyIteratorPtr two, second->iterate_any(epoch));
        return std::make_unique<ZipIterator>(type, std::move(one), std::move(two), pair);
      },
      [=]() -> std::optional<std::int64_t> {
        const auto a = first->size();
        const auto b = second->size();
        if (a && b) return std::min(*a, *b);
        return std::nullopt;
      });
}
AnyStagePtr concat(const ElementType& type, const Parts& parts) {
  return make_stage(
      type,
      [=, &type](std::int64_t epoch) -> Result<AnyIteratorPtr> {
        XOE_ASSIGN(auto all, open_all(parts, epoch));
        return std::make_unique<ConcatIterator>("concat", type, std::move(all));
      },
      [=] { return total_size(parts); });
}
AnyStagePtr mix(const ElementType& type, const Parts& parts, std::vector<double> weights, std::uint64_t seed) {
  return make_stage(
      type,
      [=, &type, weights = std::move(weights)](std::int64_t epoch) -> Result<AnyIteratorPtr> {
        const bool positive = std::all_of(weights.begin(), weights.end(), [](double weight) { return weight > 0; });
        if (weights.size() != parts.size() || !positive)
          return failure(Code::kInvalidArgument, "mix: a positive weight for each of the {} parts is needed",
                         parts.size());
        XOE_ASSIGN(auto all, open_all(parts, epoch));
        return std::make_unique<MixIterator>(type, std::move(all), weights, seed, epoch);
      },
      [=] { return total_size(parts); });
}
AnyStagePtr cache(AnyStagePtr upstream, Copy copy) {
  const ElementType& type = upstream->element_type();
  const auto store = std::make_shared<CacheStore>(std::move(upstream), copy);
  return make_stage(
      type, [=](std::int64_t) -> Result<AnyIteratorPtr> { return std::make_unique<CacheIterator>(store); },
      [=] { return store->stage().size(); });
}

}  // namespace xoe::data::detail
