// A turn of a loop that asks a GPU for news: at first it spins, then it yields, then it sleeps.
#pragma once

#include <chrono>
#include <thread>

#include "base/relax.h"

namespace xoe::nccl {

class Pause {
 public:
  void operator()() {
    ++turns_;
    if (turns_ < kSpins)
      relax(/*yields=*/false);
    else if (turns_ < kYields)
      relax(/*yields=*/true);
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  // Time for what costs more than a look at an event.
  bool is_slow() const noexcept { return turns_ % kSlow == kSlow - 1 || turns_ >= kYields; }

 private:
  static constexpr unsigned kSpins = 2000, kYields = 4000, kSlow = 256;
  unsigned turns_ = 0;
};

}  // namespace xoe::nccl
