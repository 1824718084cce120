#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "core/bench/collectives/harness.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kRoundTrips = 100;  // of one short run

struct alignas(128) Flag {
  std::atomic<std::uint32_t> value{0};
};

bool pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(core), &set);
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}

void wait_for(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
  while (word.load(std::memory_order_acquire) != value) {
  }
}

}  // namespace

double xoe_bench_canary(int core_a, int core_b, double milliseconds, double* spread) {
  Flag ping, pong;
  std::atomic<bool> pinned{true};
  constexpr std::uint32_t kStop = ~std::uint32_t{0};
  std::thread other([&] {
    if (!pin(core_b)) pinned = false;
    for (std::uint32_t expected = 1;; ++expected) {
      std::uint32_t seen;
      while ((seen = ping.value.load(std::memory_order_acquire)) != expected) {
        if (seen == kStop) return;
      }
      pong.value.store(seen, std::memory_order_release);
    }
  });
  std::vector<double> runs;
  std::thread one([&] {
    if (!pin(core_a)) pinned = false;
    std::uint32_t turn = 0;
    const auto end = Clock::now() + std::chrono::duration<double, std::milli>(milliseconds);
    do {
      const auto start = Clock::now();
      for (std::uint32_t k = 0; k < kRoundTrips; ++k) {
        ping.value.store(++turn, std::memory_order_release);
        wait_for(pong.value, turn);
      }
      const std::chrono::duration<double, std::nano> took = Clock::now() - start;
      runs.push_back(took.count() / (2 * kRoundTrips));
    } while (Clock::now() < end);
    ping.value.store(kStop, std::memory_order_release);
  });
  one.join();
  other.join();
  if (!pinned) return -1;
  std::sort(runs.begin(), runs.end());
  const auto quantile = [&](double q) {
    return runs[static_cast<std::size_t>(q * static_cast<double>(runs.size() - 1))];
  };
  if (spread != nullptr) *spread = quantile(0.9) / quantile(0.1);
  return quantile(0.5);
}
