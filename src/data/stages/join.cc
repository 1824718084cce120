// Several stages as one, and elements that are kept.
#include <algorithm>
#include <mutex>

#include "data/stages/iterator_base.h"
#include "xoe/data/stages.h"

namespace xoe::data::detail {
namespace {

using AnyIteratorPtr = std::unique_ptr<AnyIterator>;

class ZipIterator final : public Produces<ZipIterator> {
 public:
  ZipIterator(const ElementType& type, AnyIteratorPtr first, AnyIteratorPtr second, Pair pair)
      : Produces(type), first_(std::move(first)), second_(std::move(second)), pair_next_(pair) {}

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
  void describe(StageReport& mine) const override { mine.name = "zip"; }

  AnyIteratorPtr first_;
  AnyIteratorPtr second_;
  Pair pair_next_;
  bool ended_ = false;
};

class ZipStage final : public AnyStage {
 public:
  ZipStage(AnyStagePtr first, AnyStagePtr second, const ElementType& type, Pair pair)
      : first_(std::move(first)), second_(std::move(second)), type_(type), pair_(pair) {}

  Result<AnyIteratorPtr> iterate_any(std::int64_t epoch) const override {
    XOE_ASSIGN(AnyIteratorPtr first, first_->iterate_any(epoch));
    XOE_ASSIGN(AnyIteratorPtr second, second_->iterate_any(epoch));
    return std::make_unique<ZipIterator>(type_, std::move(first), std::move(second), pair_);
  }
  std::optional<std::int64_t> size() const override {
    const auto a = first_->size();
    const auto b = second_->size();
    if (a && b) return std::min(*a, *b);
    return std::nullopt;
  }
  const ElementType& element_type() const override { return type_; }

 private:
  AnyStagePtr first_;
  AnyStagePtr second_;
  const ElementType& type_;
  Pair pair_;
};

// Each element comes from one of several iterators: the base of concat and mix.
class PartsIterator : public IteratorBase {
 public:
  PartsIterator(const ElementType& type, std::vector<AnyIteratorPtr> parts)
      : IteratorBase(type), parts_(std::move(parts)) {}

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
  void describe(StageReport& mine) const override { mine.name = "concat"; }

  std::size_t at_ = 0;
};

class MixIterator final : public Produces<MixIterator, PartsIterator> {
 public:
  MixIterator(const ElementType& type, std::vector<AnyIteratorPtr> parts, std::vector<double> weights,
              std::uint64_t key_of_seed, std::int64_t epoch)
      : Produces(type, std::move(parts)),
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
  void describe(StageReport& mine) const override { mine.name = "mix"; }

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

class PartsStage : public AnyStage {
 public:
  PartsStage(const ElementType& type, std::vector<AnyStagePtr> parts) : type_(type), parts_(std::move(parts)) {}

  Result<AnyIteratorPtr> iterate_any(std::int64_t epoch) const override {
    XOE_ASSIGN(auto opened, open(epoch));
    return std::make_unique<ConcatIterator>(type_, std::move(opened));
  }
  std::optional<std::int64_t> size() const override {
    std::int64_t total = 0;
    for (const AnyStagePtr& part : parts_) {
      const auto size = part->size();
      if (!size) return std::nullopt;
      total += *size;
    }
    return total;
  }
  const ElementType& element_type() const override { return type_; }

 protected:
  Result<std::vector<AnyIteratorPtr>> open(std::int64_t epoch) const {
    std::vector<AnyIteratorPtr> opened;
    for (const AnyStagePtr& part : parts_) {
      XOE_ASSIGN(AnyIteratorPtr iterator, part->iterate_any(epoch));
      opened.push_back(std::move(iterator));
    }
    return opened;
  }

  const ElementType& type_;
  std::vector<AnyStagePtr> parts_;
};

class MixStage final : public PartsStage {
 public:
  MixStage(const ElementType& type, std::vector<AnyStagePtr> parts, std::vector<double> weights, std::uint64_t seed)
      : PartsStage(type, std::move(parts)), weights_(std::move(weights)), seed_(seed) {}

  Result<AnyIteratorPtr> iterate_any(std::int64_t epoch) const override {
    const bool positive = std::all_of(weights_.begin(), weights_.end(), [](double weight) { return weight > 0; });
    if (weights_.size() != parts_.size() || !positive)
      return failure(Code::kInvalidArgument, "mix: a positive weight for each of the {} parts is needed",
                     parts_.size());
    XOE_ASSIGN(auto opened, open(epoch));
    return std::make_unique<MixIterator>(type_, std::move(opened), weights_, seed_, epoch);
  }

 private:
  std::vector<double> weights_;
  std::uint64_t seed_;
};

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

class CacheIterator final : public Produces<CacheIterator> {
 public:
  explicit CacheIterator(std::shared_ptr<CacheStore> store)
      : Produces(store->stage().element_type()), store_(std::move(store)) {}

  Result<bool> produce(Slot& slot) override {
    Result<bool> there = store_->copy_to(position_, slot);
    if (there && *there) ++position_;
    return there;
  }
  State save() const override {
    State state;
    state.push("cache.position", static_cast<std::int64_t>(position_));
    return state;
  }
  Status resume(State state) override {
    XOE_ASSIGN(const std::int64_t position, state.pop("cache.position"));
    position_ = static_cast<std::size_t>(std::max<std::int64_t>(position, 0));
    return {};
  }

 private:
  std::vector<StageReport> inputs() const override { return store_->stages(); }
  void describe(StageReport& mine) const override { mine.name = "cache"; }

  std::shared_ptr<CacheStore> store_;
  std::size_t position_ = 0;
};

class CacheStage final : public AnyStage {
 public:
  CacheStage(AnyStagePtr upstream, Copy copy) : store_(std::make_shared<CacheStore>(std::move(upstream), copy)) {}

  Result<AnyIteratorPtr> iterate_any(std::int64_t) const override { return std::make_unique<CacheIterator>(store_); }
  std::optional<std::int64_t> size() const override { return store_->stage().size(); }
  const ElementType& element_type() const override { return store_->stage().element_type(); }

 private:
  std::shared_ptr<CacheStore> store_;
};

}  // namespace

AnyStagePtr zip(AnyStagePtr first, AnyStagePtr second, const ElementType& type, Pair pair) {
  return std::make_shared<ZipStage>(std::move(first), std::move(second), type, pair);
}
AnyStagePtr concat(const ElementType& type, std::vector<AnyStagePtr> parts) {
  return std::make_shared<PartsStage>(type, std::move(parts));
}
AnyStagePtr mix(const ElementType& type, std::vector<AnyStagePtr> parts, std::vector<double> weights,
                std::uint64_t seed) {
  return std::make_shared<MixStage>(type, std::move(parts), std::move(weights), seed);
}
AnyStagePtr cache(AnyStagePtr upstream, Copy copy) { return std::make_shared<CacheStage>(std::move(upstream), copy); }

}  // namespace xoe::data::detail
