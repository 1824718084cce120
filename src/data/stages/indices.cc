// indices() and shuffled_indices().
#include <algorithm>
#include <bit>

#include "base/error.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace {

constexpr int kRounds = 6;

// A permutation of 0 to count - 1 by a key: a Feistel network over the next even number of bits, applied again to what
// falls outside (at most three times as many values, so fewer than four rounds of it on average).
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

class IndexWalk final : public detail::Positioned<std::int64_t> {
 public:
  IndexWalk(std::int64_t count, std::optional<Permutation> order)
      : Positioned(order ? "shuffled_indices" : "indices"), count_(count), order_(order) {}

 private:
  Result<std::optional<std::int64_t>> produce() override {
    if (position_ == count_) return std::nullopt;
    const std::int64_t at = position_++;
    return order_ ? (*order_)(at) : at;
  }
  Result<bool> pass_over(std::int64_t count) override { return jump(count, count_); }
  Status rewind() override { return {}; }

  std::int64_t count_;
  std::optional<Permutation> order_;
};

class IndexStage final : public Stage<std::int64_t> {
 public:
  IndexStage(std::int64_t count, std::optional<std::uint64_t> seed)
      : count_(std::max<std::int64_t>(count, 0)), seed_(seed) {}

  Result<std::unique_ptr<Iterator<std::int64_t>>> iterate(std::int64_t epoch) const override {
    std::optional<Permutation> order;
    if (seed_) order.emplace(count_, mix(*seed_, static_cast<std::uint64_t>(epoch)));
    return std::make_unique<IndexWalk>(count_, order);
  }
  std::optional<std::int64_t> size() const override { return count_; }

 private:
  std::int64_t count_;
  std::optional<std::uint64_t> seed_;
};

}  // namespace

StagePtr<std::int64_t> indices(std::int64_t count) { return std::make_shared<IndexStage>(count, std::nullopt); }

StagePtr<std::int64_t> shuffled_indices(std::int64_t count, std::uint64_t seed) {
  return std::make_shared<IndexStage>(count, seed);
}

}  // namespace xoe::data
