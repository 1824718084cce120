// The core of the pipeline: stages that do not know the type of their elements, compiled once (data/stages), and
// what gives them a type. stages.h is what users include.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "xoe/data/stage.h"

namespace xoe::data {

enum class Remainder : std::uint8_t;
struct ShardBatchesOptions;
struct InterleaveOptions;
struct MapOptions;
template <class T>
struct Batch;
template <class T>
struct Numbered;

namespace detail {

// The next element of an iterator, on the stack.
template <class T>
class Pulled {
 public:
  explicit Pulled(AnyIterator& from) {
    slot_.at = memory_;
    next_ = from.next_into(slot_);
  }
  ~Pulled() {
    if (next_ == Next::kElement) element().~T();
  }
  Pulled(const Pulled&) = delete;
  Pulled& operator=(const Pulled&) = delete;

  explicit operator bool() const noexcept { return next_ == Next::kElement; }
  T&& take() noexcept { return std::move(element()); }
  Next next() const noexcept { return next_; }
  Error&& error() noexcept { return std::move(*slot_.error); }
  // In place of an element that was to be made of this one.
  Next pass_on(Slot& to) noexcept {
    if (next_ == Next::kError) to.error = error();
    return next_;
  }

 private:
  T& element() noexcept { return *std::launder(reinterpret_cast<T*>(memory_)); }

  alignas(T) std::byte memory_[sizeof(T)];
  Slot slot_{nullptr};
  Next next_ = Next::kEnd;
};

// An iterator of the core as users see it (`Base`). Between stages of the core there is none.
template <class T, class Base = Iterator<T>>
class TypedIterator : public Base {
 public:
  explicit TypedIterator(AnyIteratorPtr core) : core_(std::move(core)) {}

  Result<std::optional<T>> next() override {
    Pulled<T> pulled(*core_);
    if (pulled) return std::optional<T>(pulled.take());
    if (pulled.next() == Next::kError) return failure(pulled.error());
    return std::nullopt;
  }
  Next next_into(Slot& slot) override { return core_->next_into(slot); }
  Result<bool> skip(std::int64_t count) override { return core_->skip(count); }
  State save() const override { return core_->save(); }
  Status restore(State state) override { return core_->restore(std::move(state)); }
  std::vector<StageReport> stages() const override { return core_->stages(); }

 protected:
  AnyIteratorPtr core_;
};

template <class T>
class TypedStage final : public Stage<T> {
 public:
  explicit TypedStage(AnyStagePtr core) : core_(std::move(core)) {}

  Result<std::unique_ptr<Iterator<T>>> iterate(std::int64_t epoch) const override {
    auto iterator = core_->iterate_any(epoch);
    if (!iterator) return failure(iterator.error());
    return std::make_unique<TypedIterator<T>>(std::move(*iterator));
  }
  Result<AnyIteratorPtr> iterate_any(std::int64_t epoch) const override { return core_->iterate_any(epoch); }
  std::optional<std::int64_t> size() const override { return core_->size(); }

 private:
  AnyStagePtr core_;
};

// REQUIRES: the stage's elements are of type T.
template <class T>
StagePtr<T> typed(AnyStagePtr core) {
  return std::make_shared<TypedStage<T>>(std::move(core));
}

// ---- The core

AnyStagePtr shuffle(const AnyStagePtr& upstream, std::size_t buffer, std::uint64_t seed);
AnyStagePtr shard(const AnyStagePtr& upstream, int rank, int size);
AnyStagePtr slice(const AnyStagePtr& upstream, std::int64_t skip, std::int64_t take);  // a negative `take`: all
AnyStagePtr filter(const AnyStagePtr& upstream, std::function<Result<bool>(const void* element)> wanted);
AnyStagePtr repeat(const AnyStagePtr& upstream, std::int64_t epochs);
AnyStagePtr concat(const ElementType& type, const std::vector<AnyStagePtr>& parts);
AnyStagePtr mix(const ElementType& type, const std::vector<AnyStagePtr>& parts, std::vector<double> weights,
                std::uint64_t seed);
AnyStagePtr prefetch(const AnyStagePtr& upstream, std::size_t depth, std::size_t memory_budget);

// `elements` is what `copy` reads; with null an array whose elements are copied byte by byte.
using CopyAt = void (*)(const void* elements, std::size_t index, Slot& to);
AnyStagePtr list(const ElementType& type, std::shared_ptr<const void> elements, std::size_t count, CopyAt copy);
using Copy = void (*)(const void* element, Slot& to);
AnyStagePtr cache(AnyStagePtr upstream, Copy copy);

// These make an element of the upstreams' next ones, and end with any of them.
using Number = Next (*)(AnyIterator& upstream, std::int64_t epoch, std::int64_t number, Slot& to);
AnyStagePtr numbered(AnyStagePtr upstream, const ElementType& type, Number number);
using Pair = Next (*)(AnyIterator& first, AnyIterator& second, Slot& to);
AnyStagePtr zip(const AnyStagePtr& first, const AnyStagePtr& second, const ElementType& type, Pair pair);

using OpenFunction = std::function<Result<AnyStagePtr>(const void* element)>;
AnyStagePtr interleave(const AnyStagePtr& upstream, const ElementType& type, OpenFunction open,
                       InterleaveOptions options);
using MapFunction = std::function<Status(const void* element, Slot& made)>;
AnyStagePtr map(const AnyStagePtr& upstream, const ElementType& type, MapFunction f, MapOptions options);

// How the core fills and reads a Batch<T>.
struct BatchPlace {
  std::int64_t epoch;
  std::int64_t index;
  std::int64_t left;
};
struct BatchInfo {
  BatchPlace at;
  std::size_t size;
};
struct BatchType {
  const ElementType& type;
  void (*begin)(Slot& to, const BatchPlace& at, std::size_t expected);  // without elements
  // Appends up to `count` elements; false when the upstream ended before.
  Result<bool> (*append)(void* batch, AnyIterator& upstream, std::size_t count);
  BatchInfo (*info)(const void* batch);
};
AnyStagePtr batch(AnyStagePtr upstream, const BatchType& type, int batch, Remainder remainder);
AnyStagePtr shard_batches(const std::function<AnyStagePtr(int size)>& order, const BatchType& type,
                          ShardBatchesOptions options);

// ---- What the core calls

template <class T>
void copy_at(const void* elements, std::size_t index, Slot& to) {
  const T& element = (*static_cast<const std::vector<T>*>(elements))[index];
  to.put(element);
}
template <class T>
void copy_element(const void* element, Slot& to) {
  to.put(*static_cast<const T*>(element));
}

template <class T>
Next number_next(AnyIterator& upstream, std::int64_t epoch, std::int64_t number, Slot& to) {
  Pulled<T> pulled(upstream);
  if (!pulled) return pulled.pass_on(to);
  to.put(Numbered<T>{epoch, number, pulled.take()});
  return Next::kElement;
}

template <class T, class U>
Next pair_next(AnyIterator& first, AnyIterator& second, Slot& to) {
  Pulled<T> a(first);
  if (!a) return a.pass_on(to);
  Pulled<U> b(second);
  if (!b) return b.pass_on(to);
  to.put(std::pair<T, U>(a.take(), b.take()));
  return Next::kElement;
}

template <class T>
void begin_batch(Slot& to, const BatchPlace& at, std::size_t expected) {
  auto* batch = ::new (to.at) Batch<T>{.epoch = at.epoch, .index = at.index, .left = at.left, .elements = {}};
  batch->elements.reserve(expected);
}
template <class T>
Result<bool> append_to_batch(void* batch, AnyIterator& upstream, std::size_t count) {
  auto& elements = static_cast<Batch<T>*>(batch)->elements;
  for (; count > 0; --count) {
    Pulled<T> pulled(upstream);
    if (pulled.next() == Next::kError) return failure(pulled.error());
    if (!pulled) return false;
    elements.push_back(pulled.take());
  }
  return true;
}
template <class T>
BatchInfo batch_info(const void* batch) {
  const auto& made = *static_cast<const Batch<T>*>(batch);
  return {{made.epoch, made.index, made.left}, made.elements.size()};
}
template <class T>
inline constexpr BatchType kBatchType{kElementType<Batch<T>>, begin_batch<T>, append_to_batch<T>, batch_info<T>};

}  // namespace detail
}  // namespace xoe::data
