// The random numbers of a schedule.
#pragma once

#include <cstdint>

#include "core/testing/sim/simulation.h"

namespace xoe::sim {

// Apart from those of the simulation itself: what is left out of a schedule leaves the rest as it is. xorshift64*
// (Vigna, 2014).
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  std::uint64_t below(std::uint64_t limit) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 0x2545f4914f6cdd1dULL >> 16) % limit;
  }
  bool chance(unsigned percent) { return below(100) < percent; }
  // Both included.
  Time between(Time least, Time most) {
    return least + static_cast<Time>(below(static_cast<std::uint64_t>(most - least + 1)));
  }
  int number(int least, int most) { return static_cast<int>(between(least, most)); }

 private:
  std::uint64_t state_;
};

}  // namespace xoe::sim
