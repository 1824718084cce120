// A small random generator whose numbers are the same with every compiler, which <random>'s distributions are not.
#pragma once

#include <cstdint>

#include "xoe/data/stages.h"

namespace xoe::data {

class Random {
 public:
  explicit Random(std::uint64_t key) noexcept : key_(key) {}
  Random(std::uint64_t seed, std::uint64_t stream, std::uint64_t number) noexcept : key_(mix(seed, stream, number)) {}

  std::uint64_t bits() noexcept { return mix(key_, count_++); }
  double uniform() noexcept { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // [0, 1)
  double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }
  // From low to high, both included.
  int integer(int low, int high) noexcept {
    const auto values = static_cast<std::uint64_t>(high - low) + 1;
    return low + static_cast<int>(((bits() >> 32) * values) >> 32);
  }
  bool chance(double probability) noexcept { return uniform() < probability; }

 private:
  std::uint64_t key_;
  std::uint64_t count_ = 0;
};

}  // namespace xoe::data
