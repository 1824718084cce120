// Waits between two polls of a GPU: spins at first, then yields, then sleeps.
#pragma once

#include <chrono>
#include <thread>

#include "core/base/relax.h"

namespace xoe::nccl {

class Backoff {
 public:
  void operator()() {
    ++polls_;
    if (polls_ < kSpins)
      relax(/*yields=*/false);
    else if (polls_ < kYields)
      relax(/*yields=*/true);
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  // True for some polls only: time for checks that cost more than querying an event.
  bool is_slow() const noexcept { return polls_ % kSlow == kSlow - 1 || polls_ >= kYields; }

 private:
  static constexpr unsigned kSpins = 2000, kYields = 4000, kSlow = 256;
  unsigned polls_ = 0;
};

}  // namespace xoe::nccl
