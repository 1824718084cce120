// from_vector(), indices() and shuffled_indices().
#include <algorithm>
#include <bit>

#include "data/stages/iterator_base.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace {

constexpr int kRounds = 6;

// SplitMix64's finaliser (Steele, Lea, Flood 2014).
std::uint64_t scramble(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// A permutation of 0 to count - 1 by a key: a Feistel network over the next even number of bits, applied again to
// values outside of the range (there are at most three times as many, so it takes fewer than four applications on
// average).
class Permutation {
 public:
  Permutation(std::int64_t count, std::uint64_t key) : count_(static_cast<std::uint64_t>(count)), key_(key) {
    const int bits = count_ > 1 ? static_cast<int>(std::bit_width(count_ - 1)) : 1;
    half_bits_ = (bits + 1) / 2;
    mask_ = (std::uint64_t{1} << half_bits_) - 1;
  }

  std::int64_t operator()(std::int64_t index) const {
    auto value = static_cast<std::uint64_t>(index);
    do {
      value = once(value);
    } while (value >= count_);
    return static_cast<std::int64_t>(value);
  }

 private:
  std::uint64_t once(std::uint64_t value) const {
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask_;
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t mixed = (left ^ mix(key_, static_cast<std::uint64_t>(round), right)) & mask_;
      left = right;
      right = mixed;
    }
    return (left << half_bits_) | right;
  }

  std::uint64_t count_;
  std::uint64_t key_;
  int half_bits_;
  std::uint64_t mask_;
};

// A source of `count` elements, each known by its index.
template <class Made>
class ListIterator : public Produces<Made, PositionedIterator> {
 public:
  ListIterator(std::string name, const ElementType& type, std::int64_t count)
      : Produces<Made, PositionedIterator>(std::move(name), type), count_(count) {}

 protected:
  Result<bool> pass_over(std::int64_t count) override { return this->jump(count, count_); }

  std::int64_t count_;
};

class IndexIterator final : public ListIterator<IndexIterator> {
 public:
  explicit IndexIterator(std::int64_t count) : ListIterator("indices", kElementType<std::int64_t>, count) {}

  Result<bool> produce(Slot& slot) override {
    if (position_ == count_) return false;
    slot.put(position_++);
    return true;
  }
};

class ShuffledIndexIterator final : public ListIterator<ShuffledIndexIterator> {
 public:
  ShuffledIndexIterator(std::int64_t count, std::uint64_t key)
      : ListIterator("shuffled_indices", kElementType<std::int64_t>, count), order_(count, key) {}

  Result<bool> produce(Slot& slot) override {
    if (position_ == count_) return false;
    slot.put(order_(position_++));
    return true;
  }

 private:
  Permutation order_;
};

struct List {
  std::shared_ptr<const void> elements;
  std::int64_t count;
  detail::CopyAt copy;
};

class VectorIterator final : public ListIterator<VectorIterator> {
 public:
  VectorIterator(const ElementType& type, List list)
      : ListIterator("vector", type, list.count), list_(std::move(list)) {}

  Result<bool> produce(Slot& slot) override {
    if (position_ == count_) return false;
    const auto index = static_cast<std::size_t>(position_++);
    if (list_.copy != nullptr) {
      list_.copy(list_.elements.get(), index, slot);
    } else {
      copy_bytes(type_, slot.at, static_cast<const std::byte*>(list_.elements.get()) + index * type_.size);
      slot.bytes = bytes_of_element(type_, slot.at);
    }
    return true;
  }

 private:
  List list_;
};

}  // namespace

std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c) noexcept {
  return scramble(scramble(scramble(a) ^ b) ^ c);
}

StagePtr<std::int64_t> indices(std::int64_t count) {
  count = std::max<std::int64_t>(count, 0);
  return detail::typed<std::int64_t>(make_stage(
      kElementType<std::int64_t>,
      [=](std::int64_t) -> Result<AnyIteratorPtr> { return std::make_unique<IndexIterator>(count); },
      [=] { return std::optional(count); }));
}
StagePtr<std::int64_t> shuffled_indices(std::int64_t count, std::uint64_t seed) {
  count = std::max<std::int64_t>(count, 0);
  return detail::typed<std::int64_t>(make_stage(
      kElementType<std::int64_t>,
      [=](std::int64_t epoch) -> Result<AnyIteratorPtr> {
        return std::make_unique<ShuffledIndexIterator>(count, mix(seed, static_cast<std::uint64_t>(epoch)));
      },
      [=] { return std::optional(count); }));
}

AnyStagePtr detail::list(const ElementType& type, std::shared_ptr<const void> elements, std::size_t count,
                         CopyAt copy) {
  const List made{std::move(elements), static_cast<std::int64_t>(count), copy};
  return make_stage(
      type, [=, &type](std::int64_t) -> Result<AnyIteratorPtr> { return std::make_unique<VectorIterator>(type, made); },
      [=] { return std::optional(made.count); });
}

}  // namespace xoe::data
