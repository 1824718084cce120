// Tasks on ranks that are threads of the test process.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/engine/execute/batch/task.h"
#include "core/engine/execute/compress/codec.h"
#include "core/tests/comm/thread_group.h"
#include "xoe/engine.h"

namespace xoe::engine {

inline Status drive(Task task) {
  while (!task.advance()) std::this_thread::yield();
  return task.result();
}

inline std::string kind_name(Compression kind) {
  constexpr const char* kNames[] = {"none", "float16", "bfloat16", "float8", "top_k", "power_sgd"};
  return kNames[static_cast<int>(kind)];
}

// Deterministic numbers, the same with every standard library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15 + 1) {}
  double uniform() {  // [-1, 1)
    state_ += 0x9E3779B97F4A7C15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    return static_cast<double>(z >> 11) * 0x1p-52 - 1.0;
  }
  double normal() {  // close enough: a sum of twelve
    double sum = 0;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum / 2;
  }

 private:
  std::uint64_t state_;
};

inline std::vector<float> random_values(std::size_t count, std::uint64_t seed, double magnitude = 1.0) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& x : values) x = static_cast<float>(magnitude * random.normal());
  return values;
}

// What each rank holds after body(communicator), by rank.
template <class T>
std::vector<T> on_ranks(int size, const std::function<T(Communicator&)>& body) {
  std::vector<T> results(static_cast<std::size_t>(size));
  testing::run_ranks(size, [&](Communicator& comm) { results[static_cast<std::size_t>(comm.rank())] = body(comm); });
  return results;
}

// Bits, so that NaN equals itself and -0 is not 0.
template <class T>
void expect_same_bits(const std::vector<std::vector<T>>& by_rank) {
  for (std::size_t r = 1; r < by_rank.size(); ++r) {
    ASSERT_EQ(by_rank[r].size(), by_rank[0].size());
    EXPECT_TRUE(by_rank[0].empty() ||
                std::memcmp(by_rank[r].data(), by_rank[0].data(), by_rank[0].size() * sizeof(T)) == 0)
        << "rank " << r << " has other bits than rank 0";
  }
}

}  // namespace xoe::engine
