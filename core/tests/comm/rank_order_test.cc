// Sums of floating-point numbers have the bits of adding in the order of ranks, also where tensors are reduced as one.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "core/tests/comm/thread_group.h"

namespace xoe::testing {
namespace {

// Sums of these depend on the order.
std::vector<float> numbers(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::vector<float> values(count);
  for (float& value : values)
    value = std::ldexp(static_cast<float>(random() % 2'000'001) - 1e6F, static_cast<int>(random() % 16));
  return values;
}

std::vector<float> sum_in_rank_order(int size, std::size_t count) {
  std::vector<float> sum = numbers(0, count);
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<float> values = numbers(rank, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

TEST(RankOrder, OfTensorsThatAreReducedAsOne) {
  for (const std::vector<std::size_t>& lengths :
       {std::vector<std::size_t>{1, 2, 3}, {10, 0, 700, 1}, {5000, 33, 70'001}}) {
    const std::size_t total = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
    for (const int size : {3, 4})
      for (const bool shared : {false, true})
        run_ranks(size, [&](Communicator& world) {
          const std::vector<float> input = numbers(world.rank(), total);
          auto buffer = world.shared_buffer(total * sizeof(float)).value();
          std::vector<float> own(total);
          float* const data = shared ? buffer.as<float>().data() : own.data();
          std::copy(input.begin(), input.end(), data);
          std::vector<Segment> segments;
          float* at = data;
          for (const std::size_t length : lengths) {
            segments.push_back({at, at, length});
            at += length;
          }
          ASSERT_TRUE(world.start_allreduce(segments, DType::kFloat32).value().wait());
          const std::vector<float> expected = sum_in_rank_order(size, total);
          EXPECT_EQ(std::memcmp(data, expected.data(), total * sizeof(float)), 0)
              << size << " ranks, " << total << " elements, shared: " << shared;
        });
  }
}

}  // namespace
}  // namespace xoe::testing
