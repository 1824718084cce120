// The engine over several hosts, which are processes of this machine.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <random>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/tests/comm/process_group.h"
#include "core/tests/engine/engines.h"

namespace xoe::testing {
namespace {

// Steps of named tensors, submitted in another order on each rank; "" when all results are right.
std::string train_steps(Engine& engine, int steps) {
  constexpr std::size_t kTensors = 40;
  const int size = engine.topology().size;
  std::mt19937 random(static_cast<unsigned>(engine.topology().rank));
  std::vector<std::vector<float>> tensors(kTensors);
  std::vector<std::size_t> order(kTensors);
  for (int step = 0; step < steps; ++step) {
    std::vector<EngineHandle> handles(kTensors);
    for (std::size_t i = 0; i < kTensors; ++i) {
      order[i] = i;
      tensors[i].assign(1 + i * i * 40, static_cast<float>(engine.topology().rank + step));
    }
    std::ranges::shuffle(order, random);
    for (const std::size_t i : order) {
      const std::vector<std::int64_t> shape{static_cast<std::int64_t>(tensors[i].size())};
      const TensorArg tensor = in_place(tensors[i], shape);
      auto handle = engine.submit({.name = fmt::format("t{}", i), .tensors = {&tensor, 1}});
      if (!handle) return handle.error().to_string();
      handles[i] = *handle;
    }
    for (std::size_t i = 0; i < kTensors; ++i) {
      if (const Status status = handles[i].wait(); !status) return status.error().to_string();
      const float expected = static_cast<float>(size * step) + static_cast<float>(size * (size - 1)) / 2;
      for (const float x : tensors[i])
        if (x != expected) return fmt::format("step {} tensor {}: {} instead of {}", step, i, x, expected);
    }
  }
  return "";
}

class EngineOverHosts : public ::testing::TestWithParam<std::vector<int>> {};
INSTANTIATE_TEST_SUITE_P(Layouts, EngineOverHosts,
                         ::testing::Values(std::vector{0, 1}, std::vector{0, 0, 1, 1}, std::vector{0, 1, 0, 2, 2}));

TEST_P(EngineOverHosts, AgreesAndReduces) {
  ProcessGroup(GetParam(), [](Communicator& communicator) -> std::string {
    auto engine = Engine::create(std::move(communicator), quiet_options());
    if (!engine) return engine.error().to_string();
    const std::string problem = train_steps(**engine, 12);
    // No rank leaves before all are done.
    const Status met = (*engine)->run({.name = "end", .op = {.kind = OpKind::kBarrier}});
    return !problem.empty() ? problem : met ? "" : met.error().to_string();
  }).expect_success();
}

TEST_P(EngineOverHosts, ProcessSetsOverSomeOfThem) {
  ProcessGroup(GetParam(), [](Communicator& communicator) -> std::string {
    auto engine = Engine::create(std::move(communicator), quiet_options()).value();
    std::vector<int> ranks;
    for (int r = engine->topology().size - 1; r >= 0; r -= engine->topology().size > 2 ? 2 : 1) ranks.push_back(r);
    const auto set = engine->add_process_set(ranks);
    if (!set) return set.error().to_string();
    if (std::ranges::find(ranks, engine->topology().rank) != ranks.end()) {
      std::vector<float> x(1000, 1);
      const std::vector<std::int64_t> shape{1000};
      const TensorArg tensor = in_place(x, shape);
      const Status status = engine->run({.name = "in the set", .tensors = {&tensor, 1}, .process_set = *set});
      if (!status) return status.error().to_string();
      if (x.back() != static_cast<float>(ranks.size())) return fmt::format("{}", x.back());
    }
    const Status met = engine->run({.name = "end", .op = {.kind = OpKind::kBarrier}});
    return met ? "" : met.error().to_string();
  }).expect_success();
}

// Only the operation fails: no rank of the other host has submitted it, and that host knows nothing of it.
TEST(EngineOverHostsJoins, WhatNeedsAHostThatHasJoinedFailsAndTheEngineGoesOn) {
  ProcessGroup({0, 0, 1, 1}, [](Communicator& communicator) -> std::string {
    auto engine = Engine::create(std::move(communicator), quiet_options()).value();
    std::vector<float> x(4, 1);
    const std::vector<std::int64_t> shape{4};
    const TensorArg out_of_place{.in = x.data(), .out = nullptr, .dtype = DType::kFloat32, .shape = shape};
    if (engine->topology().rank < 2) {
      for (const OpSpec& op :
           {OpSpec{.kind = OpKind::kAlltoall}, OpSpec{.kind = OpKind::kAllgather, .needs_all_ranks = true}})
        for (int turn = 0; turn < 2; ++turn) {
          const Status status = engine->run({.name = "needs all", .op = op, .tensors = {&out_of_place, 1}});
          if (status) return fmt::format("{} ran without host 1", op_kind_name(op.kind));
          if (status.error().message().find("its ranks have joined") == std::string::npos)
            return status.error().to_string();
        }
      const TensorArg tensor = in_place(x, shape);
      if (const Status status = engine->run({.name = "sum", .tensors = {&tensor, 1}}); !status)
        return status.error().to_string();
      if (x[0] != 2) return fmt::format("a sum of {}", x[0]);
    }
    if (const Status status = engine->run({.op = {.kind = OpKind::kJoin}}); !status) return status.error().to_string();
    const Status all =
        engine->run({.name = "needs all", .op = {.kind = OpKind::kAlltoall}, .tensors = {&out_of_place, 1}});
    return all ? "" : all.error().to_string();
  }).expect_success();
}

// Lines of the log have 8 bits of the generation of a name's entry, which each use of the name moves on.
TEST(EngineOverHostsErrors, TellOfThisUseOfANameNotOfOne256UsesAgo) {
  ProcessGroup({0, 1}, [](Communicator& communicator) -> std::string {
    const int rank = communicator.rank();
    auto engine = Engine::create(std::move(communicator), quiet_options()).value();
    const auto use = [&](int count) {
      std::vector<float> x(static_cast<std::size_t>(count), 1);
      const std::vector<std::int64_t> shape{count};
      const TensorArg tensor = in_place(x, shape);
      return engine->run({.name = "x", .tensors = {&tensor, 1}});
    };
    for (int number = 0; number < 520; ++number) {
      const int least = 1000 + 2 * number;
      const bool disagree = number % 256 == 0;
      const Status status = use(disagree ? least + rank : 3);
      if (!disagree && !status) return status.error().to_string();
      if (!disagree) continue;
      if (status) return fmt::format("use {}: the ranks agree", number);
      for (const int count : {least, least + 1})
        if (status.error().message().find(fmt::format("[{}]", count)) == std::string::npos)
          return fmt::format("use {}: {}", number, status.error().to_string());
    }
    const Status met = engine->run({.name = "end", .op = {.kind = OpKind::kBarrier}});
    return met ? "" : met.error().to_string();
  }).expect_success();
}

TEST(EngineOverHostsFailures, NameTheRankAndTheTensor) {
  ProcessGroup group({0, 0, 1, 1}, [](Communicator& communicator) -> std::string {
    const int rank = communicator.rank();
    auto engine = Engine::create(std::move(communicator), quiet_options()).value();
    if (const std::string problem = train_steps(*engine, 3); !problem.empty()) return problem;
    if (rank == 3) {
      ::usleep(50'000);
      ::raise(SIGKILL);
    }
    std::string problem;
    while (problem.empty()) problem = train_steps(*engine, 1);
    for (const char* part : {"peer_lost", "rank 3 (host host1", "t"})
      if (problem.find(part) == std::string::npos) return problem;
    return "";
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(group.wait(rank), 0);
}

// Host 0 decides, so host 1 knows no more than that others are late: it must say so all the same.
TEST(EngineOverHostsStalls, AreReportedOnAHostThatWaitsForAnother) {
  ProcessGroup({0, 1}, [](Communicator& communicator) -> std::string {
    std::atomic<bool> warned{false};
    EngineOptions options = quiet_options();
    options.stall_warning = std::chrono::milliseconds(100);
    options.warn = [&](std::string_view line) {
      if (line.find("'late'") != std::string_view::npos && line.find("submitted by rank 1") != std::string_view::npos &&
          line.find("missing on ranks of other hosts") != std::string_view::npos)
        warned = true;
    };
    auto engine = Engine::create(std::move(communicator), options).value();
    const auto sum = [&](std::string_view name, std::vector<float>& x) {
      const std::vector<std::int64_t> shape{1};
      const TensorArg tensor = in_place(x, shape);
      return engine->submit({.name = name, .tensors = {&tensor, 1}}).value();
    };
    std::vector<float> late(1), told(1);
    EngineHandle handle;
    if (engine->topology().rank == 1) {
      handle = sum("late", late);
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (!warned && std::chrono::steady_clock::now() < limit) ::usleep(10'000);
      if (!warned) return "no warning";
    }
    if (const Status status = sum("told", told).wait(); !status) return status.error().to_string();
    if (engine->topology().rank == 0) handle = sum("late", late);
    const Status status = handle.wait();
    return status ? "" : status.error().to_string();
  }).expect_success();
}

}  // namespace
}  // namespace xoe::testing
