// The same work on many things at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace xoe::data {

// `wanted`, or the cores of this machine where it is 0.
inline int thread_count(int wanted) {
  return wanted > 0 ? wanted : static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
}

// Calls work(0) to work(count - 1) on `threads` threads, the caller's included; returns when all calls have returned.
template <class Work>
void for_each_in_threads(std::size_t count, int threads, const Work& work) {
  std::atomic<std::size_t> next = 0;
  const auto take_turns = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> helpers;
  const std::size_t most = std::min(count, static_cast<std::size_t>(std::max(threads, 1)));
  for (std::size_t i = 1; i < most; ++i) helpers.emplace_back(take_turns);
  take_turns();
}

}  // namespace xoe::data
