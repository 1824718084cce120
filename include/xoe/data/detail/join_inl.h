// Included by stages.h: several stages as one, and elements that are kept.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>

#include "xoe/data/detail/iterator_base_inl.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace detail {

template <class T, class U>
class ZipIterator final : public IteratorBase<std::pair<T, U>> {
 public:
  ZipIterator(IteratorPtr<T> first, IteratorPtr<U> second) : first_(std::move(first)), second_(std::move(second)) {}

  Next<std::pair<T, U>> produce() override {
    if (ended_) return std::nullopt;
    auto a = first_->next();
    if (!a) return failure(a.error());
    auto b = *a ? second_->next() : Next<U>(std::nullopt);
    if (!b) return failure(b.error());
    ended_ = !*a || !*b;
    if (ended_) return std::nullopt;
    return std::pair<T, U>(std::move(**a), std::move(**b));
  }
  State save() const override {
    State state;
    state.push_group("zip.first", first_->save());
    state.push_group("zip.second", second_->save());
    state.push("zip.ended", ended_ ? 1 : 0);
    return state;
  }
  Status resume(State state) override {
    const auto ended = state.pop("zip.ended");
    if (!ended) return failure(ended.error());
    auto second = state.pop_group("zip.second");
    if (!second) return failure(second.error());
    auto first = state.pop_group("zip.first");
    if (!first) return failure(first.error());
    ended_ = *ended != 0;
    if (auto restored = first_->restore(std::move(*first)); !restored) return restored;
    return second_->restore(std::move(*second));
  }

 protected:
  std::vector<StageReport> inputs() const override {
    std::vector<StageReport> all = first_->stages();
    append_stages(all, second_->stages());
    return all;
  }
  void describe(StageReport& mine) const override { mine.name = "zip"; }

 private:
  IteratorPtr<T> first_;
  IteratorPtr<U> second_;
  bool ended_ = false;
};

template <class T, class U>
class ZipStage final : public Stage<std::pair<T, U>> {
 public:
  ZipStage(StagePtr<T> first, StagePtr<U> second) : first_(std::move(first)), second_(std::move(second)) {}

  Result<IteratorPtr<std::pair<T, U>>> iterate(std::int64_t epoch) const override {
    auto a = first_->iterate(epoch);
    if (!a) return failure(a.error());
    auto b = second_->iterate(epoch);
    if (!b) return failure(b.error());
    return std::make_unique<ZipIterator<T, U>>(std::move(*a), std::move(*b));
  }
  std::optional<std::int64_t> size() const override {
    const auto a = first_->size();
    const auto b = second_->size();
    if (a && b) return std::min(*a, *b);
    return std::nullopt;
  }

 private:
  StagePtr<T> first_;
  StagePtr<U> second_;
};

// Parts of which each element is asked from one: the base of concat and mix.
template <class T>
class PartsIterator : public IteratorBase<T> {
 public:
  PartsIterator(const std::vector<StagePtr<T>>& parts, std::int64_t epoch) : parts_(parts), epoch_(epoch) {}

  Status open() {
    for (const StagePtr<T>& part : parts_) {
      auto opened = part->iterate(epoch_);
      if (!opened) return failure(opened.error());
      iterators_.push_back(std::move(*opened));
    }
    return {};
  }
  State save() const override {
    State state;
    for (const auto& iterator : iterators_) state.push_group("part", iterator->save());
    return state;
  }
  Status resume(State state) override {
    for (auto at = iterators_.rbegin(); at != iterators_.rend(); ++at) {
      auto group = state.pop_group("part");
      if (!group) return failure(group.error());
      if (auto restored = (*at)->restore(std::move(*group)); !restored) return restored;
    }
    return {};
  }

 protected:
  std::vector<StageReport> inputs() const override {
    std::vector<StageReport> all;
    for (const auto& iterator : iterators_) append_stages(all, iterator->stages());
    return all;
  }

  std::vector<StagePtr<T>> parts_;
  std::int64_t epoch_;
  std::vector<IteratorPtr<T>> iterators_;
};

template <class T>
class ConcatIterator final : public PartsIterator<T> {
 public:
  using PartsIterator<T>::PartsIterator;

  Next<T> produce() override {
    for (; at_ < this->iterators_.size(); ++at_) {
      auto element = this->iterators_[at_]->next();
      if (!element || *element) return element;
    }
    return std::nullopt;
  }
  State save() const override {
    State state = PartsIterator<T>::save();
    state.push("concat.part", static_cast<std::int64_t>(at_));
    return state;
  }
  Status resume(State state) override {
    const auto at = state.pop("concat.part");
    if (!at) return failure(at.error());
    at_ = static_cast<std::size_t>(std::max<std::int64_t>(*at, 0));
    return PartsIterator<T>::resume(std::move(state));
  }

 protected:
  void describe(StageReport& mine) const override { mine.name = "concat"; }

 private:
  std::size_t at_ = 0;
};

template <class T>
class MixIterator final : public PartsIterator<T> {
 public:
  MixIterator(const std::vector<StagePtr<T>>& parts, std::int64_t epoch, std::vector<double> weights,
              std::uint64_t seed)
      : PartsIterator<T>(parts, epoch), weights_(std::move(weights)), seed_(seed), left_(weights_) {}

  Next<T> produce() override {
    for (;;) {
      double total = 0;
      for (const double weight : left_) total += weight;
      if (total <= 0) return std::nullopt;
      const std::size_t part = draw(total);
      auto element = this->iterators_[part]->next();
      if (!element || *element) return element;
      left_[part] = 0;
    }
  }
  State save() const override {
    State state = PartsIterator<T>::save();
    for (const double weight : left_) state.push("mix.ended", weight == 0 ? 1 : 0);
    state.push("mix.drawn", static_cast<std::int64_t>(drawn_));
    return state;
  }
  Status resume(State state) override {
    const auto drawn = state.pop("mix.drawn");
    if (!drawn) return failure(drawn.error());
    drawn_ = static_cast<std::uint64_t>(*drawn);
    for (std::size_t part = left_.size(); part-- > 0;) {
      const auto ended = state.pop("mix.ended");
      if (!ended) return failure(ended.error());
      left_[part] = *ended != 0 ? 0 : weights_[part];
    }
    return PartsIterator<T>::resume(std::move(state));
  }

 protected:
  void describe(StageReport& mine) const override { mine.name = "mix"; }

 private:
  std::size_t draw(double total) {
    const std::uint64_t bits = xoe::data::mix(seed_, static_cast<std::uint64_t>(this->epoch_), drawn_++);
    double at = static_cast<double>(bits >> 11) * 0x1p-53 * total;
    std::size_t last = 0;
    for (std::size_t part = 0; part < left_.size(); ++part) {
      if (left_[part] <= 0) continue;
      last = part;
      if ((at -= left_[part]) < 0) return part;
    }
    return last;  // where rounding left a crumb
  }

  std::vector<double> weights_;
  std::uint64_t seed_;
  std::vector<double> left_;  // weights; 0 once ended
  std::uint64_t drawn_ = 0;
};

template <class T>
class PartsStage final : public Stage<T> {
 public:
  // Mixed by weights and seed, or one after the other.
  PartsStage(std::vector<StagePtr<T>> parts, bool mixed, std::vector<double> weights, std::uint64_t seed)
      : parts_(std::move(parts)), mixed_(mixed), weights_(std::move(weights)), seed_(seed) {}

  Result<IteratorPtr<T>> iterate(std::int64_t epoch) const override {
    if (mixed_) {
      const bool good = std::all_of(weights_.begin(), weights_.end(), [](double weight) { return weight > 0; });
      if (weights_.size() != parts_.size() || !good)
        return failure(Code::kInvalidArgument,
                       "mix: a positive weight for each of the " + std::to_string(parts_.size()) + " parts is needed");
      return opened(std::make_unique<MixIterator<T>>(parts_, epoch, weights_, seed_));
    }
    return opened(std::make_unique<ConcatIterator<T>>(parts_, epoch));
  }
  std::optional<std::int64_t> size() const override {
    std::int64_t total = 0;
    for (const StagePtr<T>& part : parts_) {
      const auto size = part->size();
      if (!size) return std::nullopt;
      total += *size;
    }
    return total;
  }

 private:
  static Result<IteratorPtr<T>> opened(std::unique_ptr<PartsIterator<T>> iterator) {
    if (auto status = iterator->open(); !status) return failure(status.error());
    return iterator;
  }

  std::vector<StagePtr<T>> parts_;
  bool mixed_;
  std::vector<double> weights_;
  std::uint64_t seed_;
};

// Filled by whichever iterator is ahead.
template <class T>
class CacheStage final : public Stage<T> {
 public:
  explicit CacheStage(StagePtr<T> upstream) : store_(std::make_shared<Store>(std::move(upstream))) {}

  Result<IteratorPtr<T>> iterate(std::int64_t) const override { return std::make_unique<Walk>(store_); }
  std::optional<std::int64_t> size() const override { return store_->upstream->size(); }

 private:
  struct Store {
    explicit Store(StagePtr<T> from) : upstream(std::move(from)) {}

    Next<T> at(std::size_t position) {
      const std::lock_guard lock(mutex);
      while (position >= elements.size() && !ended) {
        if (source == nullptr) {
          auto opened = upstream->iterate(0);
          if (!opened) return failure(opened.error());
          source = std::move(*opened);
          const auto there = source->skip(static_cast<std::int64_t>(elements.size()));
          if (!there || !*there) {
            source = nullptr;
            if (!there) return failure(there.error());
            return failure(Code::kInternal, "cache: the upstream has fewer elements than before");
          }
        }
        auto element = source->next();
        if (!element) {
          source = nullptr;  // whoever asks next tries again
          return element;
        }
        ended = !*element;
        if (!ended) elements.push_back(std::move(**element));
      }
      if (ended) source = nullptr;
      if (position >= elements.size()) return std::nullopt;
      return elements[position];
    }

    StagePtr<T> upstream;
    std::mutex mutex;
    Reopened<T> source;
    std::vector<T> elements;
    bool ended = false;
  };

  class Walk final : public IteratorBase<T> {
   public:
    explicit Walk(std::shared_ptr<Store> store) : store_(std::move(store)) {}

    Next<T> produce() override {
      auto element = store_->at(position_);
      if (element && *element) ++position_;
      return element;
    }
    State save() const override {
      State state;
      state.push("cache.position", static_cast<std::int64_t>(position_));
      return state;
    }
    Status resume(State state) override {
      const auto position = state.pop("cache.position");
      if (!position) return failure(position.error());
      position_ = static_cast<std::size_t>(std::max<std::int64_t>(*position, 0));
      return {};
    }

   protected:
    std::vector<StageReport> inputs() const override { return store_->source.stages(); }
    void describe(StageReport& mine) const override { mine.name = "cache"; }

   private:
    std::shared_ptr<Store> store_;
    std::size_t position_ = 0;
  };

  std::shared_ptr<Store> store_;
};

}  // namespace detail

template <class T, class U>
StagePtr<std::pair<T, U>> zip(StagePtr<T> first, StagePtr<U> second) {
  return std::make_shared<detail::ZipStage<T, U>>(std::move(first), std::move(second));
}

template <class T>
StagePtr<T> concat(std::vector<StagePtr<T>> parts) {
  return std::make_shared<detail::PartsStage<T>>(std::move(parts), false, std::vector<double>(), 0);
}

template <class T>
StagePtr<T> mix(std::vector<StagePtr<T>> parts, std::vector<double> weights, std::uint64_t seed) {
  return std::make_shared<detail::PartsStage<T>>(std::move(parts), true, std::move(weights), seed);
}

template <class T>
StagePtr<T> cache(StagePtr<T> upstream) {
  return std::make_shared<detail::CacheStage<T>>(std::move(upstream));
}

}  // namespace xoe::data
