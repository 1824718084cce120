// What one operation of each kind does, and what goes wrong in the ways that users make it go wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>

#include "core/tests/engine/engines.h"

namespace xoe {
namespace {

using ::testing::HasSubstr;
using testing::in_place;
using testing::quiet_options;
using testing::run_engines;
using Shape = std::vector<std::int64_t>;

TEST(Engine, SumsANamedTensor) {
  run_engines(3, [](Engine& engine) {
    std::vector<float> x(5, static_cast<float>(engine.topology().rank + 1));
    const Shape shape{5};
    const TensorArg tensor = in_place(x, shape);
    for (int step = 0; step < 3; ++step) {
      std::fill(x.begin(), x.end(), static_cast<float>(engine.topology().rank + 1));
      ASSERT_TRUE(engine.run({.name = "x", .tensors = {&tensor, 1}}));
      EXPECT_THAT(x, ::testing::Each(6.0F));
    }
  });
}

TEST(Engine, TakesTensorsInAnyOrder) {
  constexpr int kTensors = 20;
  run_engines(2, [](Engine& engine) {
    const int rank = engine.topology().rank;
    const Shape shape{100};
    std::vector<std::vector<float>> x(kTensors, std::vector<float>(100));
    for (int step = 0; step < 10; ++step) {
      std::vector<EngineHandle> handles(kTensors);
      for (int i = 0; i < kTensors; ++i) {
        const int t = rank == 0 ? i : kTensors - 1 - i;
        std::fill(x[t].begin(), x[t].end(), static_cast<float>(t + rank + step));
        const TensorArg tensor = in_place(x[t], shape);
        handles[t] = engine.submit({.name = "t" + std::to_string(t), .tensors = {&tensor, 1}}).value();
      }
      for (int t = 0; t < kTensors; ++t) {
        ASSERT_TRUE(handles[t].wait());
        EXPECT_THAT(x[t], ::testing::Each(static_cast<float>(2 * (t + step) + 1)));
      }
    }
  });
}

TEST(Engine, DifferentShapesAreTheSameErrorEverywhereAndTheEngineGoesOn) {
  std::array<std::string, 3> messages;
  run_engines(3, [&](Engine& engine) {
    const int rank = engine.topology().rank;
    std::vector<float> x(6, 1);
    const Shape usual{2, 3}, other{3, 2};
    const TensorArg tensor = in_place(x, rank == 1 ? other : usual);
    const Status status = engine.run({.name = "w", .tensors = {&tensor, 1}});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
    messages[static_cast<std::size_t>(rank)] = status.error().message();
    const TensorArg right = in_place(x, usual);
    ASSERT_TRUE(engine.run({.name = "w", .tensors = {&right, 1}}));
    EXPECT_THAT(x, ::testing::Each(3.0F));
  });
  EXPECT_EQ(messages[0],
            "'w': ranks disagree: ranks 0, 2 submitted allreduce(float32 [2, 3], sum); rank 1 submitted "
            "allreduce(float32 [3, 2], sum)");
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_EQ(messages[0], messages[2]);
}

TEST(Engine, ANameInFlightIsRefused) {
  run_engines(2, [](Engine& engine) {
    std::vector<float> x(1), y(1);
    const Shape shape{1};
    const TensorArg first = in_place(x, shape), second = in_place(y, shape);
    // Rank 1 waits until rank 0 has tried twice, so that the first is surely in flight.
    if (engine.topology().rank == 0) {
      auto handle = engine.submit({.name = "x", .tensors = {&first, 1}}).value();
      const auto refused = engine.submit({.name = "x", .tensors = {&second, 1}});
      ASSERT_FALSE(refused);
      EXPECT_THAT(refused.error().message(), HasSubstr("allreduce 'x': this name is in flight already"));
      ASSERT_TRUE(engine.run({.name = "go", .op = {.kind = OpKind::kBarrier}}));
      ASSERT_TRUE(handle.wait());
    } else {
      ASSERT_TRUE(engine.run({.name = "go", .op = {.kind = OpKind::kBarrier}}));
      ASSERT_TRUE(engine.run({.name = "x", .tensors = {&first, 1}}));
    }
  });
}

TEST(Engine, GathersRowsThatDifferInNumber) {
  run_engines(3, [](Engine& engine) {
    const int rank = engine.topology().rank;
    std::vector<std::int32_t> rows(static_cast<std::size_t>(rank) * 2, rank);
    const Shape shape{rank, 2};
    const TensorArg tensor{rows.data(), nullptr, DType::kInt32, shape};
    auto handle = engine.submit({.name = "rows", .op = {.kind = OpKind::kAllgather}, .tensors = {&tensor, 1}}).value();
    ASSERT_TRUE(handle.wait());
    ASSERT_EQ(handle.outputs().size(), 1u);
    EXPECT_THAT(handle.outputs()[0].shape, ::testing::ElementsAre(3, 2));
    EXPECT_THAT(handle.received_splits(), ::testing::ElementsAre(0, 1, 2));
    const auto* data = static_cast<const std::int32_t*>(handle.outputs()[0].data);
    EXPECT_THAT(std::vector<std::int32_t>(data, data + 6), ::testing::ElementsAre(1, 1, 2, 2, 2, 2));
  });
}

// A name of each step: what the ranks remember of it from the last one does not count.
TEST(Engine, GathersOtherNumbersOfRowsInEachStep) {
  run_engines(3, [](Engine& engine) {
    for (int step = 0; step < 300; ++step) {
      const int rank = engine.topology().rank, own = (rank + step) % 3;
      std::vector<std::int32_t> rows(static_cast<std::size_t>(own), step);
      const Shape shape{own};
      const TensorArg tensor{rows.data(), nullptr, DType::kInt32, shape};
      auto handle =
          engine.submit({.name = "rows", .op = {.kind = OpKind::kAllgather}, .tensors = {&tensor, 1}}).value();
      ASSERT_TRUE(handle.wait());
      ASSERT_THAT(handle.received_splits(), ::testing::ElementsAre(step % 3, (1 + step) % 3, (2 + step) % 3)) << step;
      const auto* data = static_cast<const std::int32_t*>(handle.outputs()[0].data);
      ASSERT_THAT(std::vector<std::int32_t>(data, data + 3), ::testing::ElementsAre(step, step, step));
    }
  });
}

TEST(Engine, AMismatchTellsTheRowsOfThisStep) {
  run_engines(2, [](Engine& engine) {
    const auto gather = [&engine](std::int64_t rows, std::int64_t columns) {
      std::vector<float> values(static_cast<std::size_t>(rows * columns));
      const Shape shape{rows, columns};
      const TensorArg tensor{values.data(), nullptr, DType::kFloat32, shape};
      return engine.submit({.name = "rows", .op = {.kind = OpKind::kAllgather}, .tensors = {&tensor, 1}})
          .value()
          .wait();
    };
    ASSERT_TRUE(gather(2, 2));
    ASSERT_TRUE(gather(3, 2));
    const Status wrong = gather(5, engine.topology().rank == 0 ? 2 : 3);
    ASSERT_FALSE(wrong);
    EXPECT_THAT(wrong.error().message(), ::testing::HasSubstr("rank 0 submitted allgather(float32 [5, 2])"));
    EXPECT_THAT(wrong.error().message(), ::testing::HasSubstr("rank 1 submitted allgather(float32 [5, 3])"));
  });
}

TEST(Engine, SendsRowsToEachRank) {
  run_engines(2, [](Engine& engine) {
    const int rank = engine.topology().rank;
    std::vector<float> x{static_cast<float>(rank), 10, 20};
    const Shape shape{3};
    const Shape splits = rank == 0 ? Shape{1, 2} : Shape{3, 0};
    const TensorArg tensor{x.data(), nullptr, DType::kFloat32, shape};
    auto handle =
        engine.submit({.name = "a", .op = {.kind = OpKind::kAlltoall}, .tensors = {&tensor, 1}, .splits = splits})
            .value();
    ASSERT_TRUE(handle.wait());
    const auto* data = static_cast<const float*>(handle.outputs()[0].data);
    if (rank == 0) {
      EXPECT_THAT(handle.received_splits(), ::testing::ElementsAre(1, 3));
      EXPECT_THAT(std::vector<float>(data, data + 4), ::testing::ElementsAre(0, 1, 10, 20));
    } else {
      EXPECT_THAT(handle.received_splits(), ::testing::ElementsAre(2, 0));
      EXPECT_THAT(std::vector<float>(data, data + 2), ::testing::ElementsAre(10, 20));
    }
  });
}

TEST(Engine, BroadcastsBytesOfUnknownLength) {
  run_engines(3, [](Engine& engine) {
    const std::string object = "an object of some length";
    const Shape shape{static_cast<std::int64_t>(object.size())};
    TensorArg tensor{nullptr, nullptr, DType::kUint8, {}};
    const Shape none{0};
    tensor.shape = none;
    if (engine.topology().rank == 2) tensor = {object.data(), nullptr, DType::kUint8, shape};
    auto handle =
        engine.submit({.name = "o", .op = {.kind = OpKind::kBroadcastBytes, .root = 2}, .tensors = {&tensor, 1}})
            .value();
    ASSERT_TRUE(handle.wait());
    const Output& output = handle.outputs()[0];
    EXPECT_EQ(std::string(static_cast<const char*>(output.data), static_cast<std::size_t>(output.shape[0])), object);
  });
}

TEST(Engine, JoinedRanksGiveZerosUntilAllHaveJoined) {
  run_engines(3, [](Engine& engine) {
    const int rank = engine.topology().rank;
    std::vector<float> x(4);
    const Shape shape{4};
    const TensorArg tensor = in_place(x, shape);
    for (int step = 0; step <= rank; ++step) {
      std::fill(x.begin(), x.end(), 1.0F);
      ASSERT_TRUE(engine.run({.name = "g", .tensors = {&tensor, 1}}));
      EXPECT_THAT(x, ::testing::Each(static_cast<float>(3 - step)));
    }
    auto joined = engine.submit({.op = {.kind = OpKind::kJoin}}).value();
    ASSERT_TRUE(joined.wait());
    EXPECT_EQ(joined.last_joined(), 2);
    std::fill(x.begin(), x.end(), 1.0F);
    ASSERT_TRUE(engine.run({.name = "g", .tensors = {&tensor, 1}}));
    EXPECT_THAT(x, ::testing::Each(3.0F));
  });
}

TEST(Engine, WhatNeedsAllRanksFailsOnceOneHasJoined) {
  run_engines(3, [](Engine& engine) {
    const int rank = engine.topology().rank;
    std::vector<float> x(4, static_cast<float>(rank));
    const Shape shape{4};
    const TensorArg tensor = in_place(x, shape);
    const TensorArg gathered{.in = x.data(), .out = nullptr, .dtype = DType::kFloat32, .shape = shape};
    if (rank != 0) {
      const Request gather{.name = "g", .op = {.kind = OpKind::kAllgather}, .tensors = {&gathered, 1}};
      auto without = engine.submit(gather).value();
      ASSERT_TRUE(without.wait());
      EXPECT_THAT(without.received_splits(), ::testing::ElementsAre(0, 4, 4));
      Request strict = gather;
      strict.op.needs_all_ranks = true;
      EXPECT_THAT(engine.run(strict).error().message(), HasSubstr("a rank has joined"));
      const OpSpec broadcast{.kind = OpKind::kBroadcast, .root = 2, .needs_all_ranks = true};
      EXPECT_THAT(engine.run({.name = "b", .op = broadcast, .tensors = {&tensor, 1}}).error().message(),
                  HasSubstr("a rank has joined"));
    }
    ASSERT_TRUE(engine.run({.op = {.kind = OpKind::kJoin}}));
    const OpSpec strict{.needs_all_ranks = true};
    std::fill(x.begin(), x.end(), 1.0F);
    ASSERT_TRUE(engine.run({.name = "x", .op = strict, .tensors = {&tensor, 1}}));
    EXPECT_THAT(x, ::testing::Each(3.0F));
  });
}

TEST(Engine, SparseTensorsOfDifferentShapesAreAMismatch) {
  run_engines(2, [](Engine& engine) {
    const int rank = engine.topology().rank;
    const std::vector<std::int64_t> indices{0, 1};
    const std::vector<float> values{1, 2};
    const Shape rows{2};
    const std::array<TensorArg, 2> tensors{TensorArg{indices.data(), nullptr, DType::kInt64, rows},
                                           TensorArg{values.data(), nullptr, DType::kFloat32, rows}};
    const auto sum = [&](const Shape& dense_shape) {
      return engine.run(
          {.name = "s", .op = {.kind = OpKind::kSparseAllreduce}, .tensors = tensors, .dense_shape = dense_shape});
    };
    EXPECT_TRUE(sum({5}));
    EXPECT_TRUE(sum({}));
    const Status differs = sum({rank == 0 ? 3 : 5});
    ASSERT_FALSE(differs);
    EXPECT_THAT(differs.error().message(), HasSubstr("of [3]"));
    EXPECT_THAT(differs.error().message(), HasSubstr("of [5]"));
    const TensorArg tensor{values.data(), nullptr, DType::kFloat32, rows};
    EXPECT_FALSE(
        engine.run({.name = "g", .op = {.kind = OpKind::kAllgather}, .tensors = {&tensor, 1}, .dense_shape = rows}));
  });
}

// Of a name that comes back the engine remembers what it has checked.
TEST(Engine, ANameMayComeBackWithOtherArguments) {
  run_engines(2, [](Engine& engine) {
    std::vector<float> x(6), y(6);
    const Shape shape{6}, other{2, 3}, fewer{4};
    const auto run = [&](TensorArg tensor, const OpSpec& op = {}) {
      std::fill(x.begin(), x.end(), 2.0F);
      return engine.run({.name = "x", .op = op, .tensors = {&tensor, 1}});
    };
    for (int step = 0; step < 4; ++step) {
      ASSERT_TRUE(run(in_place(x, shape)));
      EXPECT_THAT(x, ::testing::Each(4.0F));
    }
    ASSERT_TRUE(run(in_place(x, fewer)));
    EXPECT_THAT(x, ::testing::ElementsAre(4, 4, 4, 4, 2, 2));
    ASSERT_TRUE(run(in_place(x, shape), {.reduce = ReduceOp::kProduct, .postscale = 0.5}));
    EXPECT_THAT(x, ::testing::Each(2.0F));
    ASSERT_TRUE(run({x.data(), y.data(), DType::kFloat32, shape}));
    EXPECT_THAT(y, ::testing::Each(4.0F));
    EXPECT_THAT(x, ::testing::Each(2.0F));
    for (int step = 0; step < 3; ++step) ASSERT_TRUE(run(in_place(x, shape)));
    const Status overlap = run({x.data(), x.data() + 1, DType::kFloat32, shape});
    ASSERT_FALSE(overlap);
    EXPECT_THAT(overlap.error().message(), HasSubstr("allreduce 'x': `in` and `out` of tensor 0 overlap"));
    const Status none = run({nullptr, nullptr, DType::kFloat32, shape});
    ASSERT_FALSE(none);
    EXPECT_THAT(none.error().message(), HasSubstr("has 6 elements and no memory"));
    const Status differing = run(in_place(x, engine.topology().rank == 0 ? shape : other));
    ASSERT_FALSE(differing);
    EXPECT_THAT(differing.error().message(), HasSubstr("float32 [2, 3]"));
    ASSERT_TRUE(run(in_place(x, shape)));
    EXPECT_THAT(x, ::testing::Each(4.0F));
  });
}

TEST(Engine, AHandleKeepsItsResultsWhileItsNameComesBack) {
  std::vector<EngineHandle> kept(2);
  run_engines(2, [&](Engine& engine) {
    const auto rank = static_cast<std::size_t>(engine.topology().rank);
    std::vector<float> rows(3, static_cast<float>(rank));
    const Shape shape{1, 3};
    const TensorArg tensor{rows.data(), nullptr, DType::kFloat32, shape};
    for (int step = 0; step < 5; ++step) {
      std::fill(rows.begin(), rows.end(), static_cast<float>(step));
      auto handle = engine.submit({.name = "g", .op = {.kind = OpKind::kAllgather}, .tensors = {&tensor, 1}});
      ASSERT_TRUE(handle);
      ASSERT_TRUE(handle->wait());
      if (step == 1) kept[rank] = *handle;
      ASSERT_EQ(handle->outputs().size(), 1U);
      EXPECT_EQ(static_cast<const float*>(handle->outputs()[0].data)[5], static_cast<float>(step));
    }
  });
  for (EngineHandle& handle : kept) {  // the engines are gone
    ASSERT_TRUE(handle.wait());
    EXPECT_EQ(handle.outputs().at(0).shape, (Shape{2, 3}));
    EXPECT_EQ(static_cast<const float*>(handle.outputs()[0].data)[5], 1.0F);
  }
}

// More names than are remembered, and names that are never used again.
TEST(Engine, ForgetsNamesThatDoNotComeBack) {
  run_engines(2, [](Engine& engine) {
    std::vector<float> x(3);
    const Shape shape{3};
    const TensorArg tensor = in_place(x, shape);
    for (int i = 0; i < 2000; ++i) {
      std::fill(x.begin(), x.end(), 1.0F);
      ASSERT_TRUE(engine.run({.name = i % 2 == 0 ? "usual" : "once" + std::to_string(i), .tensors = {&tensor, 1}}));
      ASSERT_EQ(x[2], 2.0F);
    }
  });
}

TEST(Engine, ClosesWhileOtherThreadsAreInIt) {
  for (int round = 0; round < 20; ++round) {
    auto engines = testing::make_engines(testing::make_group(2, std::chrono::seconds(60)), testing::quiet_options());
    std::atomic<int> running{0};
    std::vector<std::jthread> threads;
    const auto use = [&running](Engine& engine, const std::string& name) {
      std::vector<float> x(4, 1);
      const Shape shape{4};
      const TensorArg tensor = in_place(x, shape);
      running.fetch_add(1);
      while (true) {
        const Status status = engine.run({.name = name, .tensors = {&tensor, 1}});
        if (!status) return;
        (void)engine.shared_buffer(64);
        (void)engine.metrics();
      }
    };
    for (auto& engine : engines)
      for (const char* const name : {"a", "b"}) threads.emplace_back([&, name] { use(*engine, name); });
    // The other rank takes no part in this.
    threads.emplace_back([&] {
      running.fetch_add(1);
      EXPECT_FALSE(engines[0]->add_process_set(std::vector<int>{0, 1}));
    });
    while (running.load() != 5) std::this_thread::yield();
    engines[0]->close();
    engines[0]->close();
    engines[1]->close();
    threads.clear();
    EXPECT_EQ(engines[0]->run({.op = {.kind = OpKind::kBarrier}}).error().code(), Code::kUnavailable);
    EXPECT_EQ(engines[0]->add_process_set(std::vector<int>{0}).error().code(), Code::kUnavailable);
    EXPECT_EQ(engines[0]->shared_buffer(64).error().code(), Code::kUnavailable);
  }
}

TEST(Engine, ProcessSetsRunOnTheirOwn) {
  run_engines(4, [](Engine& engine) {
    const int rank = engine.topology().rank;
    const std::vector<int> odd{1, 3}, low{0, 1, 2};
    const auto odd_set = engine.add_process_set(odd).value();
    const auto low_set = engine.add_process_set(low).value();
    EXPECT_THAT(engine.process_sets(), ::testing::ElementsAre(0, odd_set, low_set));
    std::vector<double> x{1.0};
    const Shape shape{1};
    const TensorArg tensor = in_place(x, shape);
    for (const auto& [set, members] : {std::pair(odd_set, odd), std::pair(low_set, low)}) {
      x[0] = 1;
      const bool member = std::count(members.begin(), members.end(), rank) != 0;
      const Status status = engine.run({.name = "x", .tensors = {&tensor, 1}, .process_set = set});
      EXPECT_EQ(status.has_value(), member);
      if (member)
        EXPECT_EQ(x[0], static_cast<double>(members.size()));
      else
        EXPECT_THAT(status.error().message(), HasSubstr("is not in process set"));
    }
    EXPECT_EQ(engine.process_set_rank(low_set).has_value(), rank != 3);
    ASSERT_TRUE(engine.remove_process_set(odd_set));
    EXPECT_FALSE(engine.run({.name = "x", .tensors = {&tensor, 1}, .process_set = odd_set}));
    EXPECT_FALSE(engine.remove_process_set(odd_set));
  });
}

TEST(Engine, ASetsRanksAreInTheOrderGiven) {
  run_engines(4, [](Engine& engine) {
    const int rank = engine.topology().rank;
    const std::vector<int> given{3, 0, 2};
    const auto set = engine.add_process_set(given).value();
    EXPECT_EQ(engine.process_set_ranks(set).value(), given);
    if (rank == 1) return;
    EXPECT_EQ(given[static_cast<std::size_t>(engine.process_set_rank(set).value())], rank);
    const std::int32_t own = rank;
    const Shape shape{1};
    const TensorArg tensor{&own, nullptr, DType::kInt32, shape};
    auto handle =
        engine
            .submit({.name = "ranks", .op = {.kind = OpKind::kAllgather}, .tensors = {&tensor, 1}, .process_set = set})
            .value();
    ASSERT_TRUE(handle.wait());
    const auto* data = static_cast<const std::int32_t*>(handle.outputs()[0].data);
    EXPECT_EQ(std::vector<int>(data, data + 3), given);
  });
}

TEST(Engine, CompressedAveragesAreAverages) {
  run_engines(2, [](Engine& engine) {
    const Shape shape{16, 16};
    for (const Compression kind :
         {Compression::kFloat16, Compression::kFloat8, Compression::kTopK, Compression::kPowerSgd})
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage}) {
        std::vector<float> x(256, static_cast<float>(engine.topology().rank + 1));
        const TensorArg tensor = in_place(x, shape);
        const OpSpec spec{.reduce = op,
                          .compression = {.kind = kind, .error_feedback = true, .top_k_ratio = 1, .power_sgd_rank = 1}};
        const std::string name = std::string(compression_name(kind)).append(".").append(reduce_op_name(op));
        ASSERT_TRUE(engine.run({.name = name, .op = spec, .tensors = {&tensor, 1}})) << name;
        EXPECT_THAT(x, ::testing::Each(::testing::FloatNear(op == ReduceOp::kSum ? 3 : 1.5F, 0.01F))) << name;
      }
  });
}

TEST(Engine, AScaleOfMinusZeroIsZero) {
  run_engines(2, [](Engine& engine) {
    for (const int negative : {0, 1}) {
      const double zero = engine.topology().rank == negative ? -0.0 : 0.0;
      for (const OpSpec& spec : {OpSpec{.prescale = zero}, OpSpec{.postscale = zero}}) {
        std::vector<float> x(3, 1);
        const Shape shape{3};
        const TensorArg tensor = in_place(x, shape);
        const Status done = engine.run({.name = "x", .op = spec, .tensors = {&tensor, 1}});
        ASSERT_TRUE(done) << done.error().message();
        for (const float value : x) EXPECT_TRUE(value == 0 && !std::signbit(value));
      }
    }
  });
}

TEST(Engine, ErrorsShowTheSizesOfThisTimeInAGroup) {
  run_engines(2, [](Engine& engine) {
    std::vector<float> first(2, 1), second(9, 1);
    const auto gather = [&](std::int64_t rows, OpKind kind = OpKind::kAllgather) {
      const Shape a{2}, b{rows};
      const TensorArg tensors[] = {{.in = first.data(), .dtype = DType::kFloat32, .shape = a},
                                   {.in = second.data(), .dtype = DType::kFloat32, .shape = b}};
      return engine.run({.name = "g", .op = {.kind = kind}, .tensors = tensors});
    };
    for (int step = 0; step < 2; ++step) ASSERT_TRUE(gather(5));
    const Status status = gather(7, engine.topology().rank == 0 ? OpKind::kAllgather : OpKind::kReduceScatter);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message(),
                ::testing::HasSubstr("rank 0 submitted allgather(2 tensors: float32 [2], float32 [7])"));
  });
}

TEST(Engine, CallbacksComeWithoutAnybodyWaiting) {
  std::atomic<int> called{0};
  run_engines(2, [&](Engine& engine) {
    std::vector<float> x(3, 1);
    const Shape shape{3};
    const TensorArg tensor = in_place(x, shape);
    std::atomic<bool> done{false};
    ASSERT_TRUE(engine.submit({.name = "x", .tensors = {&tensor, 1}, .callback = [&](const Status& status) {
                                 EXPECT_TRUE(status);
                                 ++called;
                                 done.store(true);
                                 done.notify_one();
                               }}));
    done.wait(false);
    EXPECT_THAT(x, ::testing::Each(2.0F));
  });
  EXPECT_EQ(called, 2);
}

// Without a progress thread a callback comes in a call of the engine, in the program's own thread.
TEST(Engine, CallbacksComeInCallsOfTheEngineWithoutAProgressThread) {
  EngineOptions options = quiet_options();
  options.progress_thread = false;
  run_engines(
      2,
      [](Engine& engine) {
        std::vector<float> x(3, 1);
        const Shape shape{3};
        const TensorArg tensor = in_place(x, shape);
        std::thread::id caller;
        auto handle = engine.submit({.name = "x", .tensors = {&tensor, 1}, .callback = [&](const Status& status) {
                                       EXPECT_TRUE(status);
                                       caller = std::this_thread::get_id();
                                     }});
        ASSERT_TRUE(handle);
        while (!handle->poll()) std::this_thread::yield();
        EXPECT_EQ(caller, std::this_thread::get_id());
        EXPECT_THAT(x, ::testing::Each(2.0F));
      },
      options);
}

TEST(Engine, AReduceScatterMayPutItsPartInPlace) {
  for (const int size : {1, 2, 3})
    for (const double scale : {1.0, 0.5})
      run_engines(size, [&](Engine& engine) {
        const int rank = engine.topology().rank;
        const std::vector<std::int64_t> shape{7, 2};  // the first ranks have a row more
        std::vector<float> x(14);
        std::iota(x.begin(), x.end(), 1.0F);
        const auto rows_before = [&](int r) { return static_cast<std::size_t>(7 / size * r + std::min(r, 7 % size)); };
        const std::size_t begin = 2 * rows_before(rank), end = 2 * rows_before(rank + 1);
        const std::vector<TensorArg> part{{x.data(), x.data() + begin, DType::kFloat32, shape}};
        const OpSpec op{.kind = OpKind::kReduceScatter, .prescale = scale};
        const Status status = engine.run({.name = "part", .op = op, .tensors = part});
        ASSERT_TRUE(status) << status.error().message();
        for (std::size_t i = begin; i < end; ++i)
          EXPECT_EQ(x[i], static_cast<float>((static_cast<double>(i) + 1) * size * scale));
        const std::vector<TensorArg> shifted{{x.data(), x.data() + begin + 1, DType::kFloat32, shape}};
        EXPECT_FALSE(engine.submit({.name = "part", .op = op, .tensors = shifted}));
      });
}

// A part is smaller than what it is a part of: right before it in memory is not within it.
TEST(Engine, AResultMayLieNextToTheInput) {
  run_engines(2, [](Engine& engine) {
    std::vector<float> memory(9, 1.0F);
    const std::vector<std::int64_t> shape{6};
    const std::vector<TensorArg> before{{memory.data() + 3, memory.data(), DType::kFloat32, shape}};
    const Status status = engine.run({.name = "part", .op = {.kind = OpKind::kReduceScatter}, .tensors = before});
    ASSERT_TRUE(status) << status.error().message();
    EXPECT_EQ(memory[2], 2.0F);
    EXPECT_EQ(memory[3], 1.0F);
    const std::vector<TensorArg> into{{memory.data() + 2, memory.data(), DType::kFloat32, shape}};
    EXPECT_FALSE(engine.submit({.name = "part", .op = {.kind = OpKind::kReduceScatter}, .tensors = into}));
  });
}

}  // namespace
}  // namespace xoe
