// Gradients in buckets: the same bits as one operation for each, whatever a rank does.
#include "core/engine/buckets/gradient_buckets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "core/tests/engine/engines.h"
#include "core/tests/engine/ranks.h"

namespace xoe::engine {
namespace {

using ::testing::HasSubstr;
using testing::run_engines;

constexpr auto kTimeout = std::chrono::seconds(60);

std::vector<BucketParameter> parameters_of(std::initializer_list<std::pair<const char*, std::int64_t>> list) {
  std::vector<BucketParameter> parameters;
  for (const auto& [name, count] : list)
    parameters.push_back({.name = name, .dtype = DType::kFloat32, .shape = {count}});
  return parameters;
}

BucketOptions options_of(ReduceOp op = ReduceOp::kAverage, std::size_t bytes = 4096) {
  BucketOptions options;
  options.name = "gradient";
  options.op.reduce = op;
  options.bytes = bytes;
  return options;
}

std::unique_ptr<GradientBuckets> make(Engine& engine, std::vector<BucketParameter> parameters,
                                      BucketOptions options = options_of()) {
  return GradientBuckets::create(engine.runtime(), std::move(parameters), std::move(options)).value();
}

std::vector<float> floats_at(const std::byte* data, std::size_t count) {
  std::vector<float> values(count);
  std::memcpy(values.data(), data, count * sizeof(float));
  return values;
}

void put_all(GradientBuckets& buckets, float value, const std::vector<std::int64_t>& counts) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::vector<float> gradient(static_cast<std::size_t>(counts[i]), value);
    ASSERT_TRUE(buckets.put(i, gradient.data()));
  }
}

TEST(GradientBuckets, HaveTheBitsOfOneOperationForEach) {
  for (const int size : {1, 2, 3, 4})
    for (const ReduceOp op : {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin})
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20})
        run_engines(size, [&](Engine& engine) {
          const std::vector<std::int64_t> counts{1, 63, 64, 1000, 4097, 5};
          std::vector<BucketParameter> parameters;
          for (std::size_t i = 0; i < counts.size(); ++i)
            parameters.push_back({.name = "p" + std::to_string(i), .dtype = DType::kFloat32, .shape = {counts[i]}});
          const auto buckets = make(engine, parameters, options_of(op, bytes));
          for (int step = 0; step < 3; ++step) {
            std::vector<std::vector<float>> own;
            for (std::size_t i = 0; i < counts.size(); ++i)
              own.push_back(random_values(static_cast<std::size_t>(counts[i]),
                                          1000 * step + 10 * i + static_cast<std::size_t>(engine.topology().rank)));
            // In another order on each rank and in each step.
            for (std::size_t i = 0; i < counts.size(); ++i) {
              const std::size_t p = (i * 5 + static_cast<std::size_t>(step + engine.topology().rank)) % counts.size();
              ASSERT_TRUE(buckets->put(p, own[p].data()));
            }
            ASSERT_TRUE(buckets->wait(kTimeout).value());
            for (std::size_t i = 0; i < counts.size(); ++i) {
              const TensorArg tensor = testing::in_place(own[i], parameters[i].shape);
              ASSERT_TRUE(engine.run({.name = parameters[i].name, .op = {.reduce = op}, .tensors = {&tensor, 1}}));
              EXPECT_EQ(floats_at(buckets->slot(i), own[i].size()), own[i]);
            }
          }
        });
}

TEST(GradientBuckets, TheFirstRanksOrderCountsAndWhatNotAllHaveIsLeftOut) {
  run_engines(3, [](Engine& engine) {
    const int rank = engine.topology().rank;
    auto parameters = rank == 0 ? parameters_of({{"a", 4}, {"b", 4}, {"c", 4}, {"of rank 0", 4}})
                                : parameters_of({{"c", 4}, {"of others", 4}, {"b", 4}, {"a", 4}});
    if (rank == 2) parameters[2].dtype = DType::kFloat64;  // b
    const auto buckets = make(engine, parameters);
    const std::size_t a = rank == 0 ? 0 : 3, b = rank == 0 ? 1 : 2, c = rank == 0 ? 2 : 0, alone = rank == 0 ? 3 : 1;
    EXPECT_EQ(buckets->buckets(), 1U);
    EXPECT_EQ(buckets->slot(b), nullptr);
    EXPECT_EQ(buckets->slot(alone), nullptr);
    EXPECT_LT(buckets->slot(a), buckets->slot(c));
    const Status refused = buckets->put(b, nullptr);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), HasSubstr("is not in the buckets"));
    const std::vector<float> one(4, 1);
    ASSERT_TRUE(buckets->put(a, one.data()));
    ASSERT_TRUE(buckets->put(c, one.data()));
    ASSERT_TRUE(buckets->wait(kTimeout).value());
    EXPECT_EQ(floats_at(buckets->slot(a), 4), one);
  });
}

TEST(GradientBuckets, AMissingGradientCountsAsZeros) {
  run_engines(2, [](Engine& engine) {
    const auto buckets = make(engine, parameters_of({{"a", 4}, {"b", 4}}), options_of(ReduceOp::kSum));
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> one(4, 1);
      ASSERT_TRUE(buckets->put(0, engine.topology().rank == 0 ? one.data() : nullptr));
      ASSERT_TRUE(buckets->put(1, one.data()));
      ASSERT_TRUE(buckets->wait(kTimeout).value());
      EXPECT_EQ(floats_at(buckets->slot(0), 4), one);
      EXPECT_EQ(floats_at(buckets->slot(1), 4), (std::vector<float>(4, 2)));
    }
  });
}

TEST(GradientBuckets, AGradientThatLiesThereIsNotCopied) {
  run_engines(2, [](Engine& engine) {
    const auto buckets = make(engine, parameters_of({{"a", 4}}), options_of(ReduceOp::kSum));
    const std::vector<float> one(4, 1);
    std::memcpy(buckets->slot(0), one.data(), 16);
    ASSERT_TRUE(buckets->put(0, buckets->slot(0)));
    ASSERT_TRUE(buckets->wait(kTimeout).value());
    EXPECT_EQ(floats_at(buckets->slot(0), 4), (std::vector<float>(4, 2)));
  });
}

TEST(GradientBuckets, LayersThatOneRankLeavesOutAreAnErrorThatNamesThem) {
  run_engines(2, [](Engine& engine) {
    const auto buckets = make(engine, parameters_of({{"a", 4}, {"frozen", 4}}));
    const std::vector<float> one(4, 1);
    for (int step = 0; step < 2; ++step) {
      const bool leaves_out = engine.topology().rank == 1 || step == 1;
      ASSERT_TRUE(buckets->put(0, one.data()));
      ASSERT_TRUE(leaves_out ? buckets->leave_out(1) : buckets->put(1, one.data()));
      const auto done = buckets->wait(kTimeout);
      if (step == 1) {  // on all ranks
        ASSERT_TRUE(done);
        EXPECT_EQ(floats_at(buckets->slot(0), 4), one);
        continue;
      }
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code(), Code::kInvalidArgument);
      EXPECT_THAT(done.error().message(),
                  HasSubstr("without frozen, which it does not train, or has with another type or shape now"));
      EXPECT_THAT(done.error().message(), HasSubstr("rank 1"));
    }
  });
}

TEST(GradientBuckets, SayWhatIsMissingAndWhatIsTooMuch) {
  run_engines(1, [](Engine& engine) {
    const auto buckets =
        make(engine, parameters_of({{"a", 4}, {"b", 4}, {"c", 4}, {"d", 4}, {"e", 4}, {"f", 4}, {"g", 4}}));
    const std::vector<float> one(4, 1);
    ASSERT_TRUE(buckets->put(0, one.data()));
    const auto early = buckets->wait(kTimeout);
    ASSERT_FALSE(early);
    EXPECT_EQ(early.error().message(),
              "gradient.bucket 0 (a .. g): no gradient of b, c, d, e, f and 1 more in this step");
    const Status twice = buckets->put(0, one.data());
    ASSERT_FALSE(twice);
    EXPECT_THAT(twice.error().message(), HasSubstr("the gradient of a is there already"));
    for (std::size_t i = 1; i < 7; ++i) ASSERT_TRUE(buckets->put(i, one.data()));
    ASSERT_TRUE(buckets->wait(kTimeout).value());
    const Status outside = buckets->put(7, one.data());
    ASSERT_FALSE(outside);
    EXPECT_EQ(outside.error().code(), Code::kInvalidArgument);
  });
}

TEST(GradientBuckets, AStepThatIsGivenUpHarmsNoLaterOne) {
  run_engines(2, [](Engine& engine) {
    const std::vector<std::int64_t> counts{2000, 2000, 2000};
    const auto buckets = make(engine, parameters_of({{"a", 2000}, {"b", 2000}, {"c", 2000}}));
    ASSERT_EQ(buckets->buckets(), 3U);
    for (int round = 0; round < 20; ++round) {
      put_all(*buckets, 7, {2000, 2000});  // the last bucket stays incomplete
      buckets->reset();
      put_all(*buckets, static_cast<float>(engine.topology().rank), counts);
      ASSERT_TRUE(buckets->wait(kTimeout).value());
      for (std::size_t i = 0; i < 3; ++i)
        ASSERT_EQ(floats_at(buckets->slot(i), 2000), (std::vector<float>(2000, 0.5F)));
    }
  });
}

TEST(GradientBuckets, ThreadsPutAtTheSameTime) {
  constexpr std::size_t kParameters = 64;
  run_engines(2, [](Engine& engine) {
    std::vector<BucketParameter> parameters;
    for (std::size_t i = 0; i < kParameters; ++i)
      parameters.push_back({.name = std::to_string(i), .dtype = DType::kFloat32, .shape = {100}});
    const auto buckets = make(engine, parameters, options_of(ReduceOp::kSum, 2000));
    for (int step = 0; step < 20; ++step) {
      std::atomic<std::size_t> next{0};
      {
        std::vector<std::jthread> threads;
        for (int t = 0; t < 4; ++t)
          threads.emplace_back([&] {
            for (std::size_t i = next.fetch_add(1); i < kParameters; i = next.fetch_add(1)) {
              const std::vector<float> gradient(100, static_cast<float>(i));
              EXPECT_TRUE(buckets->put(i, gradient.data()));
            }
          });
      }
      ASSERT_TRUE(buckets->wait(kTimeout).value());
      for (std::size_t i = 0; i < kParameters; ++i)
        ASSERT_EQ(floats_at(buckets->slot(i), 100), (std::vector<float>(100, static_cast<float>(2 * i))));
    }
  });
}

TEST(GradientBuckets, ARankThatHasJoinedTakesPartWithZerosAndForbidsALayout) {
  run_engines(2, [](Engine& engine) {
    const int rank = engine.topology().rank;
    const auto buckets = make(engine, parameters_of({{"a", 4}}), options_of(ReduceOp::kSum));
    if (rank == 0) {
      const std::vector<float> one(4, 1);
      ASSERT_TRUE(buckets->put(0, one.data()));
      ASSERT_TRUE(buckets->wait(kTimeout).value());
      EXPECT_EQ(floats_at(buckets->slot(0), 4), one);
      const auto refused = GradientBuckets::create(engine.runtime(), parameters_of({{"a", 4}}), options_of());
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
    }
    ASSERT_TRUE(engine.run({.name = "", .op = {.kind = OpKind::kJoin}}));
    make(engine, parameters_of({{"a", 4}}));
  });
}

TEST(GradientBuckets, NoMemoryOnOneRankIsAnErrorOnAll) {
  run_engines(2, [](Engine& engine) {
    const auto huge = static_cast<std::int64_t>(std::size_t{1} << 50);
    const auto refused = GradientBuckets::create(engine.runtime(), parameters_of({{"a", huge}}), options_of());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
    make(engine, parameters_of({{"a", 4}}));
  });
}

// The same bits as one operation for each, in the shape of each.
TEST(GradientBuckets, CompressionLooksAtWholeTensors) {
  for (const Compression kind : {Compression::kTopK, Compression::kPowerSgd, Compression::kFloat8})
    run_engines(2, [&](Engine& engine) {
      const std::vector<BucketParameter> parameters{
          {.name = "a", .dtype = DType::kFloat32, .shape = {20, 30}},
          {.name = "b", .dtype = DType::kFloat32, .shape = {1000}},
      };
      BucketOptions options = options_of(ReduceOp::kAverage, 1 << 20);
      options.op.compression = {.kind = kind, .top_k_ratio = 0.1};
      const auto buckets = make(engine, parameters, options);
      EXPECT_EQ(buckets->buckets(), 2U);
      for (int step = 0; step < 3; ++step) {
        std::vector<std::vector<float>> own;
        for (const BucketParameter& p : parameters)
          own.push_back(random_values(p.count(), static_cast<std::size_t>(100 * step + engine.topology().rank)));
        for (std::size_t i = 0; i < own.size(); ++i) ASSERT_TRUE(buckets->put(i, own[i].data()));
        ASSERT_TRUE(buckets->wait(kTimeout).value());
        for (std::size_t i = 0; i < own.size(); ++i) {
          const TensorArg tensor = testing::in_place(own[i], parameters[i].shape);
          ASSERT_TRUE(engine.run({.name = parameters[i].name, .op = options.op, .tensors = {&tensor, 1}}));
          EXPECT_EQ(floats_at(buckets->slot(i), own[i].size()), own[i]) << parameters[i].name;
        }
      }
    });
}

TEST(GradientBuckets, AReduceScatterGivesEachRankItsPart) {
  for (const std::vector<int>& hosts : {std::vector<int>{}, std::vector<int>{0, 1, 1}})
    run_engines(
        3,
        [](Engine& engine) {
          const int rank = engine.topology().rank;
          const std::vector<std::int64_t> counts{100, 5000, 7};
          BucketOptions options = options_of(ReduceOp::kSum, 1 << 20);
          options.op.kind = OpKind::kReduceScatter;
          const auto buckets = make(engine, parameters_of({{"a", 100}, {"b", 5000}, {"c", 7}}), options);
          ASSERT_EQ(buckets->buckets(), 1U);
          const BucketPart own = part_of(buckets->plan(0), rank, 3);
          for (int step = 0; step < 3; ++step) {
            put_all(*buckets, static_cast<float>(rank + step), counts);
            ASSERT_TRUE(buckets->wait(kTimeout).value());
            const auto* const results = reinterpret_cast<const float*>(buckets->memory(0)->data());
            for (std::size_t i = 0; i < counts.size(); ++i)
              for (std::size_t k = 0; k < static_cast<std::size_t>(counts[i]); ++k) {
                const std::size_t place = buckets->plan(0).offsets[i] + k;
                if (place < own.begin || place >= own.begin + own.count) continue;
                ASSERT_EQ(results[place], static_cast<float>(3 + 3 * step));
              }
          }
        },
        testing::quiet_options(), hosts);
}

TEST(GradientBuckets, OneBucketMayBeWaitedForBeforeTheOthers) {
  run_engines(2, [](Engine& engine) {
    const auto buckets = make(engine, parameters_of({{"a", 1000}, {"b", 1000}}), options_of(ReduceOp::kSum));
    ASSERT_EQ(buckets->buckets(), 2U);
    const std::vector<float> ones(1000, 1);
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(buckets->put(1, ones.data()));
      ASSERT_TRUE(buckets->wait_for(1));
      EXPECT_EQ(floats_at(buckets->slot(1), 1000), std::vector<float>(1000, 2));
      const Status early = buckets->wait_for(0);
      ASSERT_FALSE(early);
      EXPECT_THAT(early.error().message(), HasSubstr("no gradient of a in this step"));
      ASSERT_TRUE(buckets->put(0, ones.data()));
      ASSERT_TRUE(buckets->wait(kTimeout).value());
      EXPECT_EQ(floats_at(buckets->slot(0), 1000), std::vector<float>(1000, 2));
    }
  });
}

TEST(GradientBuckets, TheFirstBucketMayBeSmaller) {
  run_engines(2, [](Engine& engine) {
    BucketOptions options = options_of(ReduceOp::kSum, 4096);
    options.first_bytes = 256;
    const auto buckets = make(engine, parameters_of({{"a", 64}, {"b", 64}, {"c", 64}}), options);
    ASSERT_EQ(buckets->buckets(), 2U);
    EXPECT_EQ(buckets->plan(0).parameters, (std::vector<std::size_t>{0}));
  });
}

// A rank that leaves may be the one that the others' results depend on.
TEST(GradientBuckets, DrainedTheyHaveServedTheirPeers) {
  run_engines(2, [](Engine& engine) {
    auto buckets = make(engine, parameters_of({{"a", 4}, {"b", 2000}}), options_of(ReduceOp::kSum));
    ASSERT_EQ(buckets->buckets(), 2U);
    const std::vector<float> ones(2000, 1);
    ASSERT_TRUE(buckets->put(0, ones.data()));
    if (engine.topology().rank == 0) {
      buckets->drain();  // in the middle of a step
      buckets.reset();
      engine.close();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      buckets->drain();
      EXPECT_EQ(floats_at(buckets->slot(0), 4), (std::vector<float>(4, 2)));
    }
  });
}

TEST(GradientBuckets, ManyHostsReduceTheSame) {
  run_engines(4,
              [](Engine& engine) {
                const std::vector<std::int64_t> counts{100, 5000};
                const auto buckets = make(engine, parameters_of({{"a", 100}, {"b", 5000}}), options_of(ReduceOp::kSum));
                for (int step = 0; step < 3; ++step) {
                  put_all(*buckets, static_cast<float>(engine.topology().rank), counts);
                  ASSERT_TRUE(buckets->wait(kTimeout).value());
                  EXPECT_EQ(floats_at(buckets->slot(1), 5000), (std::vector<float>(5000, 6)));
                }
              },
              testing::quiet_options(), {0, 0, 1, 1});
}

TEST(GradientBuckets, OutliveTheirEngine) {
  std::vector<std::unique_ptr<GradientBuckets>> left(2);
  run_engines(2, [&](Engine& engine) {
    const auto rank = static_cast<std::size_t>(engine.topology().rank);
    left[rank] = make(engine, parameters_of({{"a", 4}}));
    const std::vector<float> one(4, 1);
    ASSERT_TRUE(left[rank]->put(0, one.data()));
    ASSERT_TRUE(left[rank]->wait(kTimeout).value());
  });
  const std::vector<float> one(4, 1);
  EXPECT_EQ(floats_at(left[0]->slot(0), 4), one);
  const Status late = left[0]->put(0, one.data());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace xoe::engine
