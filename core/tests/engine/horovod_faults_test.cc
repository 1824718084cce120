// The faults that were measured in Horovod's runtime, one test each for those that an engine can have. Its latency
// floor is a matter of figures: core/bench/engine.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/engine/tuning/knobs.h"
#include "core/tests/engine/engines.h"

namespace xoe {
namespace {

using ::testing::HasSubstr;
using testing::in_place;
using testing::quiet_options;
using testing::run_engines;
using Shape = std::vector<std::int64_t>;

// The number behind `key` in a file of /proc; -1 if there is none.
long proc_number(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;)
    if (long value = 0; word == key && file >> value) return value;
  return -1;
}

// Times that any thread of this process was put to sleep or taken off its core.
long switches_of_all_threads() {
  long sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    sum += proc_number(task.path() / "status", "voluntary_ctxt_switches:");
  return sum;
}

// Fault 2: idle, Horovod wakes 5,000 times a second.
TEST(HorovodFaults, AnIdleEngineNeverWakes) {
  if (XOE_SANITIZED != 0) GTEST_SKIP() << "sanitizers have threads of their own, which wake";
  auto options = quiet_options();
  options.progress_thread = true;
  auto engines = testing::make_engines(testing::make_group(2), options);
  {
    std::vector<std::jthread> ranks;
    for (auto& engine : engines)
      ranks.emplace_back([&] { ASSERT_TRUE(engine->run({.name = "b", .op = {.kind = OpKind::kBarrier}})); });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  // Reading /proc may sleep on a busy machine; who polls does so in every half second.
  long least = std::numeric_limits<long>::max();
  for (int attempt = 0; attempt < 5 && least > 1; ++attempt) {
    const long before = switches_of_all_threads();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    least = std::min(least, switches_of_all_threads() - before);
  }
  EXPECT_LE(least, 1) << "this thread's own sleep is one";
}

// Fault 3: synchronize() spins.
TEST(HorovodFaults, WhoWaitsSleeps) {
  run_engines(2, [](Engine& engine) {
    if (engine.topology().rank == 0) {
      rusage before{}, after{};
      ::getrusage(RUSAGE_THREAD, &before);
      ASSERT_TRUE(engine.run({.name = "late", .op = {.kind = OpKind::kBarrier}}));
      ::getrusage(RUSAGE_THREAD, &after);
      const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
      };
      const double used =
          seconds(after.ru_utime) + seconds(after.ru_stime) - seconds(before.ru_utime) - seconds(before.ru_stime);
      EXPECT_LT(used, 0.25) << "seconds of processor time for half a second of waiting";
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      ASSERT_TRUE(engine.run({.name = "late", .op = {.kind = OpKind::kBarrier}}));
    }
  });
}

// Fault 4: one tensor that is not cached sends everything through the coordinator; broadcast and reduce-scatter never
// are. Here all kinds take the same way, and one that never comes holds up nothing.
TEST(HorovodFaults, ATensorThatOthersDoNotHaveHoldsUpNobody) {
  run_engines(3, [](Engine& engine) {
    std::vector<float> x(12), only(1);
    const Shape shape{12}, one{1};
    const TensorArg tensor = in_place(x, shape), lonely = in_place(only, one);
    EngineHandle pending;
    if (engine.topology().rank == 1) pending = engine.submit({.name = "only here", .tensors = {&lonely, 1}}).value();
    for (int step = 0; step < 50; ++step)
      for (const OpKind kind : {OpKind::kAllreduce, OpKind::kBroadcast, OpKind::kReduceScatter, OpKind::kAllgather}) {
        TensorArg t = tensor;
        if (kind == OpKind::kReduceScatter || kind == OpKind::kAllgather) t.out = nullptr;
        ASSERT_TRUE(engine.run({.name = std::string(op_kind_name(kind)), .op = {.kind = kind}, .tensors = {&t, 1}}));
      }
    if (engine.topology().rank == 1) {
      ASSERT_TRUE(pending.wait_for(std::chrono::seconds(60)));
    } else {
      ASSERT_TRUE(engine.run({.name = "only here", .tensors = {&lonely, 1}}));
    }
  });
}

// Fault 5: names of unnamed tensors carry a counter, so they miss and evict.
TEST(HorovodFaults, UnnamedTensorsTakeNoMoreRoomThanNamedOnes) {
  run_engines(2, [](Engine& engine) {
    std::vector<float> x(3, 1);
    const Shape shape{3};
    const TensorArg tensor = in_place(x, shape);
    std::vector<EngineHandle> named;
    for (int step = 0; step < 5000; ++step)
      ASSERT_TRUE(engine.run({.op = {.reduce = ReduceOp::kMax}, .tensors = {&tensor, 1}}));
    EXPECT_THAT(x, ::testing::Each(1.0F));
  });
}

// Names that never come back must not fill the cache either.
TEST(HorovodFaults, EverNewNamesFindRoom) {
  run_engines(2, [](Engine& engine) {
    std::vector<float> x(3, 1);
    const Shape shape{3};
    const TensorArg tensor = in_place(x, shape);
    for (int step = 0; step < 5000; ++step)
      ASSERT_TRUE(engine.run(
          {.name = "metric." + std::to_string(step), .op = {.reduce = ReduceOp::kMax}, .tensors = {&tensor, 1}}));
  });
}

// Fault 6: an exception in init aborts the process.
TEST(HorovodFaults, AnEngineThatCannotStartSaysWhy) {
  auto options = quiet_options();
  options.cache_capacity = 1 << 19;  // more than the ranks' arenas hold
  std::vector<std::string> errors(2);
  auto group = testing::make_group(2);
  {
    std::vector<std::jthread> ranks;
    for (std::size_t r = 0; r < 2; ++r)
      ranks.emplace_back([&, r] {
        const auto engine = Engine::create(std::move(group[r]), options);
        errors[r] = engine ? "" : engine.error().to_string();
      });
  }
  EXPECT_THAT(errors, ::testing::Each(HasSubstr("left in its shared arena; raise XOE_ARENA_BYTES")));
}

// Fault 9: element counts are ints.
TEST(HorovodFaults, MoreElementsThanAnIntCounts) {
  constexpr std::int64_t kCount = (std::int64_t{1} << 31) + 64;
  if (XOE_SANITIZED != 0 || proc_number("/proc/meminfo", "MemAvailable:") < 10'000'000)
    GTEST_SKIP() << "needs 10 GB of free memory, and no sanitizer";
  run_engines(2, [](Engine& engine) {
    std::vector<std::uint8_t> x(static_cast<std::size_t>(kCount));
    x.front() = x.back() = static_cast<std::uint8_t>(engine.topology().rank + 1);
    const Shape shape{kCount};
    const TensorArg tensor = in_place(x, shape);
    const Status ran = engine.run({.name = "huge", .tensors = {&tensor, 1}});
    ASSERT_TRUE(ran) << ran.error().to_string();
    EXPECT_EQ(x.front(), 3);
    EXPECT_EQ(x.back(), 3);
  });
}

// Fault 10: the autotuner's range has neither the default nor anything below a cycle of 1 ms.
TEST(HorovodFaults, TheTunersRangeHasTheDefaultAndTheExtremes) {
  const EngineOptions usual;
  const auto& grid = engine::Knobs::grid();
  const auto has = [&](std::size_t threshold, std::size_t pack, int in_flight) {
    return std::count(grid.begin(), grid.end(), engine::Knobs{threshold, pack, in_flight}) == 1;
  };
  EXPECT_TRUE(has(usual.fusion_threshold, usual.pack_limit, usual.in_flight));
  EXPECT_TRUE(has(0, 0, 1)) << "no fusion at all";
  EXPECT_TRUE(has(std::size_t{256} << 20, std::size_t{256} << 20, 8));
}

// Fault 11: a fusion buffer of 128 MiB, whatever is needed.
TEST(HorovodFaults, FusionTakesTheMemoryThatItNeeds) {
  auto engines = testing::make_engines(testing::make_group(2), quiet_options());
  const long before = proc_number("/proc/self/status", "RssShmem:");
  {
    std::vector<std::jthread> ranks;
    for (auto& engine : engines)
      ranks.emplace_back([&] {
        std::vector<float> x(1000), y(1000);
        const Shape shape{1000};
        const std::array<TensorArg, 2> group{in_place(x, shape), in_place(y, shape)};
        for (int step = 0; step < 10; ++step) ASSERT_TRUE(engine->run({.name = "group", .tensors = group}));
      });
  }
  EXPECT_LT(proc_number("/proc/self/status", "RssShmem:") - before, 2048) << "KiB of shared memory for 8 KB of tensors";
}

// Fault 12: a group of which one name is in flight already is enqueued by half.
TEST(HorovodFaults, AGroupIsSubmittedWholeOrNotAtAll) {
  run_engines(2, [](Engine& engine) {
    std::vector<float> x(3, 1), y(3, 1);
    const Shape shape{3};
    const std::array<TensorArg, 2> group{in_place(x, shape), in_place(y, shape)};
    const TensorArg null{nullptr, nullptr, DType::kFloat32, shape};
    const std::array<TensorArg, 2> broken{group[0], null};
    EXPECT_FALSE(engine.submit({.name = "g", .tensors = broken}));
    ASSERT_TRUE(engine.run({.name = "g", .tensors = group}));
    EXPECT_THAT(x, ::testing::Each(2.0F));
    EXPECT_THAT(y, ::testing::Each(2.0F));
    // A group against a single tensor of the same name is a mismatch, and no half of it stays behind.
    const std::span<const TensorArg> mine(group.data(), engine.topology().rank == 0 ? 2 : 1);
    const Status status = engine.run({.name = "g", .tensors = mine});
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message(), HasSubstr("2 tensors: "));
    ASSERT_TRUE(engine.run({.name = "g", .tensors = group}));
  });
}

// Key fact 7: no bfloat16 anywhere.
TEST(HorovodFaults, Bfloat16Everywhere) {
  run_engines(2, [](Engine& engine) {
    std::vector<std::uint16_t> x(300, 0x3f80);  // 1.0
    const Shape shape{300};
    const TensorArg tensor{x.data(), x.data(), DType::kBfloat16, shape};
    for (const OpKind kind : {OpKind::kAllreduce, OpKind::kBroadcast, OpKind::kAdasum})
      ASSERT_TRUE(engine.run({.name = "x", .op = {.kind = kind}, .tensors = {&tensor, 1}}));
    EXPECT_THAT(x, ::testing::Each(std::uint16_t{0x4000}));
    const TensorArg open{x.data(), nullptr, DType::kBfloat16, shape};
    for (const OpKind kind : {OpKind::kAllgather, OpKind::kAlltoall, OpKind::kReduceScatter})
      ASSERT_TRUE(engine.run({.name = "y", .op = {.kind = kind}, .tensors = {&open, 1}}));
  });
}

}  // namespace
}  // namespace xoe
