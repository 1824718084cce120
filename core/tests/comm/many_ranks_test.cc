// More ranks on a host than a machine word has bits.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "core/tests/comm/thread_group.h"

namespace xoe::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::chrono::minutes kTimeout(5);  // a few cores may share all ranks

class ManyRanks : public ::testing::TestWithParam<int> {};

// Small enough for one message, inline or in a slot, and large enough for rounds.
TEST_P(ManyRanks, SumsOfAllSizes) {
  const int size = GetParam();
  run_ranks(
      size,
      [size](Communicator& world) {
        for (const std::size_t count : {1, 30, 5000}) {
          std::vector<int> x(count, world.rank());
          for (int round = 0; round < 2; ++round) {
            std::ranges::fill(x, world.rank() + round);
            ASSERT_TRUE(world.allreduce(Tensor(x.data(), count)));
            ASSERT_THAT(x, ::testing::Each(size * (size - 1) / 2 + size * round));
          }
        }
        ASSERT_TRUE(world.barrier());
      },
      kTimeout);
}

TEST_P(ManyRanks, MoveTheirBlocks) {
  const int size = GetParam();
  run_ranks(
      size,
      [size](Communicator& world) {
        std::vector<int> all(static_cast<std::size_t>(size)), expected(all.size());
        std::iota(expected.begin(), expected.end(), 0);
        const int mine = world.rank();
        ASSERT_TRUE(world.allgather(ConstTensor(&mine, 1), Tensor(all.data(), all.size())));
        EXPECT_EQ(all, expected);
        int root = world.rank();
        ASSERT_TRUE(world.broadcast(Tensor(&root, 1), size - 1));
        EXPECT_EQ(root, size - 1);
        auto part = world.split(world.rank() % 2).value();
        ASSERT_TRUE(part);
        int sum = 1;
        ASSERT_TRUE(part->allreduce(Tensor(&sum, 1)));
        EXPECT_EQ(sum, part->size());
        ASSERT_TRUE(world.barrier());
      },
      kTimeout);
}

TEST_P(ManyRanks, TheLastOneIsMissedWhenItLeaves) {
  const int size = GetParam();
  auto group = make_group(size, kTimeout);
  std::vector<std::jthread> threads;
  for (auto& member : group)
    threads.emplace_back([size, world = std::optional<Communicator>(std::move(member))]() mutable {
      Status status = world->barrier();
      if (world->rank() == size - 1) {
        ASSERT_TRUE(status);
        return world.reset();
      }
      // A rank that is late hears in the first one of what others have found in the second.
      if (status) status = world->barrier();
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::kPeerLost);
      EXPECT_THAT(status.error().message(), HasSubstr("rank " + std::to_string(size - 1) + " (pid "));
    });
}

INSTANTIATE_TEST_SUITE_P(Of, ManyRanks, ::testing::Values(65, 128, 512), ::testing::PrintToStringParamName());

TEST(MostRanks, AreNotMoreThanAHostTakes) {
  const auto refused = shm::Context::threads(shm::kMaxRanks + 1, std::size_t{16} << 20);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace xoe::testing
