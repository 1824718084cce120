// Splitting, shared memory, many operations in flight, determinism, and the arena behind them.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include <gmock/gmock.h>

#include "core/backend/shm/partition.h"
#include "core/bootstrap/store.h"
#include "core/tests/comm/process_group.h"
#include "core/tests/comm/thread_group.h"

namespace xoe::testing {
namespace {

TEST(Split, GroupsByColorAndOrdersByKey) {
  run_ranks(5, [](Communicator& world) {
    auto part = world.split(world.rank() % 2, -world.rank()).value();
    ASSERT_TRUE(part);
    const int members = world.rank() % 2 == 0 ? 3 : 2;
    EXPECT_EQ(part->size(), members);
    EXPECT_EQ(part->rank(), members - 1 - world.rank() / 2);
    int sum = world.rank();
    ASSERT_TRUE(part->allreduce(Tensor(&sum, 1)));
    EXPECT_EQ(sum, world.rank() % 2 == 0 ? 6 : 4);
    auto nested = part->split(part->rank() == 0 ? -1 : 7).value();
    EXPECT_EQ(nested.has_value(), part->rank() != 0);
    if (nested) {
      EXPECT_EQ(nested->size(), members - 1);
    }
    ASSERT_TRUE(world.barrier());
  });
}

TEST(Split, ReusesItsMemory) {
  run_ranks(2, [](Communicator& world) {
    // 1000 live blocks would not fit in the arena.
    for (int i = 0; i < 1000; ++i) {
      auto part = world.split(0);
      ASSERT_TRUE(part) << part.error().message();
      ASSERT_TRUE((**part).barrier());
    }
  });
}

TEST(Pending, ManyOperationsOfAllKindsInFlight) {
  run_ranks(3, [](Communicator& world) {
    constexpr int kOperations = 300;
    std::vector<std::vector<int>> data;
    std::vector<Handle> handles;
    for (int i = 0; i < kOperations; ++i) {
      data.emplace_back(i % 7 == 0 ? 200'000 : static_cast<std::size_t>(1 + i * 10), world.rank() + i);
      Tensor tensor(data.back().data(), data.back().size());
      handles.push_back(i % 5 == 0 ? world.start_broadcast(tensor, i % 3).value()
                                   : world.start_allreduce(tensor, tensor, ReduceOp::kMax).value());
    }
    for (int i = 0; i < kOperations; ++i) {
      ASSERT_TRUE(handles[static_cast<std::size_t>(i)].wait());
      const int expected = i + (i % 5 == 0 ? i % 3 : 2);
      for (const int x : data[static_cast<std::size_t>(i)]) ASSERT_EQ(x, expected) << "operation " << i;
    }
  });
}

TEST(Pending, TestAdvancesWithoutBlocking) {
  run_ranks(2, [](Communicator& world) {
    std::vector<float> x(1'000'000, 1);
    Handle handle = world.start_allreduce(Tensor(x.data(), x.size()), Tensor(x.data(), x.size())).value();
    while (!handle.test().value()) std::this_thread::yield();
    EXPECT_EQ(x.back(), 2);
  });
}

// The same inputs through every path and twice: one-shot, staged, zero-copy and mixed must give the same bits.
TEST(Determinism, SameBitsThroughEveryPath) {
  run_ranks(4, [](Communicator& world) {
    for (const std::size_t count : {500u, 70'000u, 300'001u}) {
      std::mt19937 random(static_cast<unsigned>(world.rank()) * 1000 + static_cast<unsigned>(count));
      std::normal_distribution<float> normal;
      std::vector<float> input(count);
      for (float& x : input) x = normal(random);
      std::vector<float> first;
      for (int round = 0; round < 6; ++round) {
        const bool shared = round % 3 == 1 || (round % 3 == 2 && world.rank() % 2 == 0);
        auto buffer = world.shared_buffer(count * sizeof(float)).value();
        std::vector<float> own(count);
        float* data = shared ? buffer.as<float>().data() : own.data();
        std::copy(input.begin(), input.end(), data);
        if (round >= 3) ::usleep(static_cast<unsigned>(random() % 300));
        ASSERT_TRUE(world.allreduce(Tensor(data, count)));
        if (first.empty()) first.assign(data, data + count);
        ASSERT_EQ(std::memcmp(first.data(), data, count * sizeof(float)), 0) << "round " << round << " count " << count;
      }
    }
  });
}

TEST(SharedBuffer, IsZeroAlignedAndSeenByPeers) {
  ProcessGroup(3, [](Communicator& world) -> std::string {
    auto buffer = world.shared_buffer(10'000).value();
    if (reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096 != 0) return "not aligned";
    for (const int x : buffer.as<int>())
      if (x != 0) return "not zero";
    buffer.as<int>()[7] = 100 + world.rank();
    const auto peers = world.map_peers(buffer);
    if (!peers) return peers.error().to_string();
    for (int r = 0; r < world.size(); ++r)
      if (reinterpret_cast<const int*>((*peers)[static_cast<std::size_t>(r)])[7] != 100 + r) return "wrong peer memory";
    return world.barrier() ? "" : "barrier failed";
  }).expect_success();
}

TEST(SharedBuffer, FreedMemoryComesBackZero) {
  auto group = make_group(1);
  for (int i = 0; i < 20; ++i) {
    auto buffer = group[0].shared_buffer(std::size_t{100} << 20).value();
    EXPECT_EQ(buffer.as<int>()[1000], 0);
    buffer.as<int>()[1000] = 1;
  }
}

TEST(SharedBuffer, TooMuchIsAnErrorThatSaysHowMuchThereIs) {
  auto group = make_group(1);
  for (const std::size_t bytes : {std::size_t{1} << 40, ~std::size_t{0}}) {
    const auto buffer = group[0].shared_buffer(bytes);
    ASSERT_FALSE(buffer);
    EXPECT_EQ(buffer.error().code(), Code::kResourceExhausted);
    EXPECT_THAT(buffer.error().message(), ::testing::HasSubstr("XOE_ARENA_BYTES"));
  }
}

TEST(SharedBuffer, MayOutliveItsCommunicator) {
  SharedBuffer buffer;
  {
    auto group = make_group(1);
    buffer = group[0].shared_buffer(4096).value();
  }
  buffer.as<int>()[0] = 1;
  EXPECT_EQ(buffer.as<int>()[0], 1);
}

TEST(Init, WithoutALauncherIsAGroupOfOne) {
  auto world = init_from(Env(), {}).value();
  EXPECT_EQ(world.size(), 1);
  float x = 3;
  ASSERT_TRUE(world.allreduce(Tensor(&x, 1), ReduceOp::kAverage));
  EXPECT_EQ(x, 3);
}

// The launcher's store serves all groups that a job forms; without one, rank 0 serves a store for each group.
TEST(Init, FormsAGroupAgainAfterTheLast) {
  const auto server = bootstrap::serve_store({}, {}).value();
  for (const std::string& store : {std::string(), server->address()}) {
    const std::string job = "again-" + std::to_string(::getpid());
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&store, job, rank] {
        for (int group = 0; group < 3; ++group) {
          auto communicator = init_from(rank_env(rank, 2, job, store), {});
          ASSERT_TRUE(communicator) << communicator.error().message();
          float x = 1;
          ASSERT_TRUE(communicator->allreduce(Tensor(&x, 1)));
          EXPECT_EQ(x, 2);
        }
      });
  }
}

TEST(Init, PeerThatDiesMeanwhileIsNamed) {
  const std::string job = "dies-" + std::to_string(::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    [[maybe_unused]] const auto never = init_from(rank_env(1, 3, job), {});
    ::_exit(0);
  }
  const std::jthread killer([child] {
    ::usleep(400'000);
    ::kill(child, SIGKILL);
  });
  const auto began = std::chrono::steady_clock::now();
  const auto communicator = init_from(rank_env(0, 3, job), {.start_timeout = std::chrono::seconds(60)});
  ASSERT_FALSE(communicator);
  EXPECT_EQ(communicator.error().code(), Code::kPeerLost) << communicator.error().message();
  EXPECT_THAT(communicator.error().message(), ::testing::HasSubstr("rank 1 (pid " + std::to_string(child) + ")"));
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
  ::waitpid(child, nullptr, 0);
}

TEST(Init, RanksThatDoNotComeAreATimeout) {
  const Env env({{"XOE_RANK", "0"},
                 {"XOE_SIZE", "2"},
                 {"XOE_LOCAL_RANK", "0"},
                 {"XOE_LOCAL_SIZE", "2"},
                 {"XOE_CROSS_RANK", "0"},
                 {"XOE_CROSS_SIZE", "1"},
                 {"XOE_JOB", "lonely-" + std::to_string(::getpid())},
                 {"XOE_START_TIMEOUT", "0.2"}});
  const auto world = init_from(env, {});
  ASSERT_FALSE(world);
  EXPECT_EQ(world.error().code(), Code::kTimeout);
}

// Several arrays as one: private, shared, mixed differently on each rank, divided differently, and against one array.
TEST(Segments, AreReducedAsIfTheyLayOneAfterTheOther) {
  enum class Memory { kPrivate, kShared, kMixed, kCutDifferently, kOneArray };
  for (const int size : {1, 2, 3, 4})
    for (const Memory memory :
         {Memory::kPrivate, Memory::kShared, Memory::kMixed, Memory::kCutDifferently, Memory::kOneArray})
      for (const std::vector<std::size_t>& lengths : {std::vector<std::size_t>{},
                                                      {0},
                                                      {1, 2, 3},
                                                      {10, 0, 700, 1},
                                                      {5000, 33, 100003},
                                                      std::vector<std::size_t>(3000, 40)})
        run_ranks(size, [&](Communicator& world) {
          const std::size_t total = std::accumulate(lengths.begin(), lengths.end(), std::size_t{0});
          auto buffer = world.shared_buffer(std::max<std::size_t>(1, total) * sizeof(std::int32_t)).value();
          std::vector<std::int32_t> own(total), result(total, -1);
          const bool shared = memory == Memory::kShared || (memory == Memory::kMixed && world.rank() == 0);
          std::int32_t* const in = shared ? buffer.as<std::int32_t>().data() : own.data();
          // Shared memory in place, private memory out of place.
          std::int32_t* const out = shared ? in : result.data();
          for (std::size_t i = 0; i < total; ++i) in[i] = static_cast<std::int32_t>(i % 1000) * (world.rank() + 1);
          std::vector<Segment> segments;
          std::size_t at = 0;
          for (const std::size_t length : lengths) {
            segments.push_back({in + at, out + at, length});
            at += length;
          }
          if (memory == Memory::kCutDifferently && world.rank() == 1) segments.assign(1, {in, out, total});
          auto handle = memory == Memory::kOneArray && world.rank() == 0
                            ? world.start_allreduce(ConstTensor(in, total), Tensor(out, total))
                            : world.start_allreduce(segments, DType::kInt32);
          ASSERT_TRUE(handle);
          ASSERT_TRUE(handle->wait());
          for (std::size_t i = 0; i < total; ++i)
            ASSERT_EQ(out[i], static_cast<std::int32_t>(i % 1000) * size * (size + 1) / 2)
                << i << " of " << total << ", memory " << static_cast<int>(memory) << ", rank " << world.rank()
                << " of " << size;
          ASSERT_TRUE(world.barrier());  // the buffers go now
        });
}

TEST(Segments, WithoutMemoryAreRefused) {
  run_ranks(1, [](Communicator& world) {
    const Segment nowhere{nullptr, nullptr, 3};
    const auto refused = world.start_allreduce({&nowhere, 1}, DType::kFloat32);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
  });
}

// Slices cover every element once, in order, and end at cache lines.
TEST(Plan, SlicesPartitionEveryCount) {
  for (const std::size_t width : {1u, 2u, 4u, 8u})
    for (int parts = 1; parts <= 9; ++parts)
      for (std::size_t count = 0; count < 700; ++count) {
        std::size_t next = 0;
        for (int p = 0; p < parts; ++p) {
          const auto s = shm::slice(count, width, p, parts);
          ASSERT_EQ(s.begin, next);
          ASSERT_LE(s.begin, s.end);
          if (s.begin != count) {
            ASSERT_EQ(s.begin * width % shm::kLine, 0u);
          }
          next = s.end;
        }
        ASSERT_EQ(next, count);
      }
}

TEST(Plan, RoundsPartitionEveryCount) {
  for (const std::size_t per_round : {1u, 7u, 64u})
    for (std::size_t count = 0; count < 300; ++count) {
      std::size_t next = 0;
      const auto rounds = shm::rounds_for(count, per_round);
      for (std::uint64_t round = 0; round < rounds; ++round) {
        const auto range = shm::round_range(count, per_round, round);
        ASSERT_EQ(range.begin, next);
        ASSERT_GT(range.size(), 0u);
        next = range.end;
      }
      ASSERT_EQ(next, count);
    }
}

}  // namespace
}  // namespace xoe::testing
