// More operations in flight than there are names for, entries in a table, or ids: nothing fails, and nothing is mixed
// up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <latch>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/tests/engine/engines.h"

namespace xoe {
namespace {

using testing::in_place;
using testing::quiet_options;
using testing::run_engines;
using Shape = std::vector<std::int64_t>;

// Tensors of one element, each in flight once.
class Tensors {
 public:
  explicit Tensors(int count) : values_(static_cast<std::size_t>(count)) {}

  // An empty name: unnamed.
  Status try_submit(Engine& engine, int index, float value, const std::string& name) {
    float& element = values_[static_cast<std::size_t>(index)];
    element = value;
    const TensorArg tensor{&element, &element, DType::kFloat32, shape_};
    XOE_ASSIGN(EngineHandle handle, engine.submit({.name = name, .tensors = {&tensor, 1}}));
    handles_.emplace_back(index, std::move(handle));
    return {};
  }
  void submit(Engine& engine, int index, float value, const std::string& name) {
    const Status submitted = try_submit(engine, index, value, name);
    ASSERT_TRUE(submitted) << index << ": " << submitted.error().to_string();
  }

  // expected(index)
  template <class Expected>
  void wait(const Expected& expected) {
    for (auto& [index, handle] : handles_) {
      const Status status = handle.wait();
      ASSERT_TRUE(status) << index << ": " << status.error().to_string();
      ASSERT_EQ(values_[static_cast<std::size_t>(index)], expected(index)) << index;
    }
    handles_.clear();
  }

  std::vector<EngineHandle> handles() const {
    std::vector<EngineHandle> all;
    for (const auto& [index, handle] : handles_) all.push_back(handle);
    return all;
  }

 private:
  const Shape shape_{1};
  std::vector<float> values_;
  std::deque<std::pair<int, EngineHandle>> handles_;
};

const std::vector<std::vector<int>> kPlacements = {{0, 0}, {0, 1}};

// 8192 names have an entry of the table at first, and until the ranks meet in the middle no tensor is complete.
TEST(ManyOperations, TwentyThousandNamesInOppositeOrders) {
  constexpr int kTensors = XOE_SANITIZED != 0 ? 3000 : 20000;
  EngineOptions options = quiet_options();
  options.cache_capacity = XOE_SANITIZED != 0 ? 256 : 8192;
  for (const auto& hosts : kPlacements) {
    std::latch half(2);
    run_engines(
        2,
        [&](Engine& engine) {
          const int rank = engine.topology().rank;
          Tensors tensors(kTensors);
          for (int step = 0; step < 2; ++step) {
            for (int i = 0; i < kTensors; ++i) {
              const int t = rank == 0 ? i : kTensors - 1 - i;
              tensors.submit(engine, t, static_cast<float>(t + rank), "tensor." + std::to_string(t));
              if (step == 0 && i == kTensors / 2 - 1) half.arrive_and_wait();
            }
            tensors.wait([](int t) { return static_cast<float>(2 * t + 1); });
          }
        },
        options, hosts);
  }
}

// Any rank may be the one that waits for all others, in the thread that submits.
TEST(ManyOperations, EachRankWaitsForItsLastTensorFirst) {
  constexpr int kTensors = 2000;
  for (const auto& hosts : kPlacements)
    run_engines(
        2,
        [&](Engine& engine) {
          const int rank = engine.topology().rank;
          Tensors tensors(kTensors);
          for (int i = 0; i < kTensors; ++i) {
            const int t = rank == 0 ? i : kTensors - 1 - i;
            tensors.submit(engine, t, 1, "tensor." + std::to_string(t));
          }
          ASSERT_TRUE(tensors.handles().back().wait_for(std::chrono::seconds(60)));
          tensors.wait([](int) { return 2.0F; });
        },
        quiet_options(), hosts);
}

TEST(ManyOperations, UnnamedOnesMeetInTheirOrderHoweverManyThereAre) {
  constexpr int kTensors = 5000;
  for (const auto& hosts : kPlacements) {
    std::latch first_has_all(1);
    run_engines(
        2,
        [&](Engine& engine) {
          const int rank = engine.topology().rank;
          if (rank == 1) first_has_all.wait();
          Tensors tensors(kTensors);
          for (int step = 0; step < 2; ++step) {
            for (int i = 0; i < kTensors; ++i) tensors.submit(engine, i, static_cast<float>(i + rank), "");
            if (rank == 0 && step == 0) first_has_all.count_down();
            tensors.wait([](int i) { return static_cast<float>(2 * i + 1); });
          }
        },
        quiet_options(), hosts);
  }
}

// A rank without memory refuses an unnamed operation, for which there is no entry in the table of names. Once it has
// memory again, its operations still meet those of the others.
TEST(ManyOperations, ARefusedOneShiftsNoCount) {
  constexpr int kTensors = 300;
  EngineOptions options = quiet_options();
  options.cache_capacity = 32;
  options.stall_limit = std::chrono::seconds(20);
  for (const auto& hosts : kPlacements) {
    std::latch first_has_all(1);
    run_engines(
        2,
        [&](Engine& engine) {
          const int rank = engine.topology().rank;
          Tensors tensors(kTensors);
          int next = 0;
          if (rank == 0) {
            std::vector<SharedBuffer> all_memory;
            for (std::size_t bytes = std::size_t{256} << 20; bytes >= 4096; bytes /= 2)
              while (auto buffer = engine.shared_buffer(bytes)) all_memory.push_back(std::move(*buffer));
            Status submitted;
            while (next < kTensors && (submitted = tensors.try_submit(engine, next, static_cast<float>(next), "")))
              ++next;
            ASSERT_FALSE(submitted);
            EXPECT_EQ(submitted.error().code(), Code::kResourceExhausted) << submitted.error().to_string();
          } else {
            first_has_all.wait();
          }
          for (; next < kTensors; ++next) tensors.submit(engine, next, static_cast<float>(next + rank), "");
          if (rank == 0) first_has_all.count_down();
          tensors.wait([](int i) { return static_cast<float>(2 * i + 1); });
        },
        options, hosts);
  }
}

// While a name waits for its turn, others that take turns enter after submit() has returned: the program cannot learn
// there that no entry is left for one of them.
TEST(ManyOperations, OneThatIsRefusedAtItsTurnEndsTheSetOnAllRanks) {
  EngineOptions options = quiet_options();
  options.cache_capacity = 32;
  options.stall_limit = std::chrono::seconds(20);
  for (const auto& hosts : kPlacements) {
    std::latch first_has_all(1);
    run_engines(
        2,
        [&](Engine& engine) {
          const int rank = engine.topology().rank;
          Tensors tensors(300);
          float x = 1;
          const Shape shape{1};
          const TensorArg tensor{&x, &x, DType::kFloat32, shape};
          Status failed;
          if (rank == 0) {
            std::vector<SharedBuffer> all_memory;
            for (std::size_t bytes = std::size_t{256} << 20; bytes >= 4096; bytes /= 2)
              while (auto buffer = engine.shared_buffer(bytes)) all_memory.push_back(std::move(*buffer));
            int next = 0;
            while (tensors.try_submit(engine, next, 1, "tensor." + std::to_string(next))) ++next;
            auto waiting =
                engine.submit({.name = "tensor.0", .queue_same_name = true, .tensors = {&tensor, 1}}).value();
            auto last = engine.submit({.name = "no room", .queue_same_name = true, .tensors = {&tensor, 1}}).value();
            failed = last.wait();
            EXPECT_FALSE(waiting.wait());
            first_has_all.count_down();
          } else {
            first_has_all.wait();
            failed = engine.run({.name = "no room", .tensors = {&tensor, 1}});
          }
          ASSERT_FALSE(failed);
          EXPECT_EQ(failed.error().code(), Code::kResourceExhausted);
          EXPECT_THAT(failed.error().message(),
                      ::testing::HasSubstr("rank 0: allreduce 'no room' has waited for its turn"));
        },
        options, hosts);
  }
}

// What follows an unnamed operation must not wait for it to get its name.
TEST(ManyOperations, NamedOnesOvertakeUnnamedOnesThatWait) {
  constexpr int kTensors = 3000;
  run_engines(2, [&](Engine& engine) {
    const bool first = engine.topology().rank == 0;
    Tensors unnamed(kTensors), named(1);
    const auto submit = [&] {
      for (int i = 0; i < kTensors; ++i) unnamed.submit(engine, i, 1, "");
    };
    if (first) submit();
    named.submit(engine, 0, 1, "named");
    named.wait([](int) { return 2.0F; });
    if (!first) submit();
    unnamed.wait([](int) { return 2.0F; });
  });
}

// A rank that joins has first submitted all that it had.
TEST(ManyOperations, AJoinComesAfterUnnamedOnesThatWait) {
  constexpr int kTensors = 3000, kLess = 2500;
  for (const auto& hosts : kPlacements)
    run_engines(
        2,
        [&](Engine& engine) {
          const int rank = engine.topology().rank;
          for (int epoch = 0; epoch < 2; ++epoch) {
            Tensors tensors(kTensors);
            for (int i = 0; i < (rank == 0 ? kLess : kTensors); ++i) tensors.submit(engine, i, 1, "");
            auto join = engine.submit({.op = {.kind = OpKind::kJoin}});
            ASSERT_TRUE(join);
            ASSERT_TRUE(join->wait());
            tensors.wait([&](int i) { return i < kLess ? 2.0F : 1.0F; });
          }
        },
        quiet_options(), hosts);
}

TEST(ManyOperations, ThoseThatWaitForANameEndWithTheEngine) {
  std::vector<EngineHandle> handles;
  Tensors tensors(3000);
  run_engines(2, [&](Engine& engine) {
    if (engine.topology().rank != 0) return;
    for (int i = 0; i < 3000; ++i) tensors.submit(engine, i, 1, "");
    handles = tensors.handles();
  });
  for (auto& handle : handles) {
    const Status status = handle.wait();
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().code(), ::testing::AnyOf(Code::kUnavailable, Code::kPeerLost));
  }
}

// Callbacks submit the next operation, with names that others are waiting for.
TEST(ManyOperations, CallbacksMaySubmitUnnamedOnes) {
  constexpr int kTensors = 3000;
  run_engines(2, [&](Engine& engine) {
    std::vector<float> values(kTensors, 1), more(kTensors, 1);
    const Shape shape{1};
    std::atomic<int> done{0};
    for (int i = 0; i < kTensors; ++i) {
      const TensorArg tensor{&values[i], &values[i], DType::kFloat32, shape};
      const auto submitted = engine.submit(
          {.op = {.kind = OpKind::kAllreduce}, .tensors = {&tensor, 1}, .callback = [&, i](const Status&) {
             const TensorArg next{&more[i], &more[i], DType::kFloat32, shape};
             const auto again = engine.submit(
                 {.name = "next." + std::to_string(i), .tensors = {&next, 1}, .callback = [&](const Status&) {
                    done.fetch_add(1);
                    done.notify_all();
                  }});
             EXPECT_TRUE(again);
           }});
      ASSERT_TRUE(submitted);
    }
    for (int seen = done.load(); seen != kTensors; seen = done.load()) done.wait(seen);
    EXPECT_THAT(values, ::testing::Each(2.0F));
    EXPECT_THAT(more, ::testing::Each(2.0F));
  });
}

// Makes and removes process sets of all ranks.
void make_sets(int ranks, int count) {
  EngineOptions options = quiet_options();
  options.cache_capacity = 32;
  run_engines(
      ranks,
      [&](Engine& engine) {
        std::vector<int> all(static_cast<std::size_t>(ranks));
        std::iota(all.begin(), all.end(), 0);
        std::vector<float> x(3);
        const Shape shape{3};
        const TensorArg tensor = in_place(x, shape);
        ProcessSetId last = kWorldSet;
        for (int i = 0; i < count; ++i) {
          const auto set = engine.add_process_set(all);
          ASSERT_TRUE(set) << i << ": " << set.error().to_string();
          EXPECT_GT(*set, last);
          std::fill(x.begin(), x.end(), 1.0F);
          ASSERT_TRUE(engine.run({.name = "x", .tensors = {&tensor, 1}, .process_set = *set}));
          EXPECT_EQ(x[0], static_cast<float>(ranks));
          // The number of a set that was removed is not that of another one.
          if (last != kWorldSet) {
            const Status status = engine.run({.name = "x", .tensors = {&tensor, 1}, .process_set = last});
            ASSERT_FALSE(status);
            EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
          }
          EXPECT_EQ(engine.process_sets().size(), 2U);
          ASSERT_TRUE(engine.remove_process_set(*set));
          last = *set;
        }
      },
      options);
}

TEST(ManyOperations, ProcessSetsComeAndGoWithoutEnd) {
  make_sets(/*ranks=*/1, /*count=*/2500);
  make_sets(/*ranks=*/2, /*count=*/50);
}

}  // namespace
}  // namespace xoe
