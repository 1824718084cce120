// Simulated steps of many ranks.
#include "measure/cli/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "core/testing/scratch.h"

namespace xoe::bench {
namespace {

using ::testing::HasSubstr;

StepProfile quiet_profile() {
  return {.forward = 0.1,
          .backward = 0.2,
          .rest = 0.01,
          .noise = 0,
          .bytes = 1e8,
          .buckets = 4,
          .images = 32,
          .runs = {1.0}};
}

const MeasuredFabric kFree{.points = {}, .fabric = Fabric::kMemory};

TEST(BenchSimulate, OneRankTakesItsOwnTime) {
  const SimulatedSize one = simulate(quiet_profile(), fabric_of(1e-5, 1e9), kFree, 1, {});
  EXPECT_NEAR(one.images_per_s, 32 / 0.31, 1e-9);
  EXPECT_NEAR(one.efficiency, 1, 1e-12);
  EXPECT_NEAR(one.exposed_ms, 0, 1e-9);
}

TEST(BenchSimulate, AFastNetworkLeavesTheLastBucketExposed) {
  // A bucket of 25 MB at 10 GB/s among 2: 2.5 ms and two rounds of 10 us, hidden but for the last.
  const SimulatedSize two = simulate(quiet_profile(), fabric_of(1e-5, 10e9), kFree, 2, {});
  EXPECT_NEAR(two.exposed_ms, 2.52, 1e-3);
  EXPECT_NEAR(two.images_per_s, 64 / (0.31 + 2.52e-3), 1e-3);
}

TEST(BenchSimulate, ASlowNetworkIsTheWholeStep) {
  // Four buckets of 0.25 s, from the first one's 0.15 s on.
  const SimulatedSize two = simulate(quiet_profile(), fabric_of(1e-9, 1e8), kFree, 2, {});
  EXPECT_NEAR(two.images_per_s, 64 / (0.15 + 4 * 0.25 + 0.01), 1e-3);
}

TEST(BenchSimulate, NoiseCostsMoreTheMoreRanksThereAre) {
  StepProfile profile = quiet_profile();
  profile.noise = 0.02;
  double before = 2;
  for (const int ranks : {1, 16, 256, 16384}) {
    const SimulatedSize size = simulate(profile, fabric_of(1e-9, 1e15), kFree, ranks, {.draws = 20});
    EXPECT_LT(size.efficiency, before) << ranks;
    EXPECT_LE(size.interval.low, size.images_per_s);
    before = size.efficiency;
  }
  // The largest of 16384 normal numbers is about 3.9 deviations up.
  EXPECT_NEAR(before, 0.31 / (0.3 * std::exp(0.02 * 3.95) + 0.01), 0.01);
}

TEST(BenchSimulate, HostsShareTheirRanksMemory) {
  const SimulationOptions four = {.ranks_per_host = 4};
  const SimulatedSize free = simulate(quiet_profile(), fabric_of(1e-5, 1e9), kFree, 10, four);
  EXPECT_EQ(free.hosts, 3);
  MeasuredFabric memory = fabric_of(1e-6, 1e9);
  memory.fabric = Fabric::kMemory;
  EXPECT_LT(simulate(quiet_profile(), fabric_of(1e-5, 1e9), memory, 10, four).images_per_s, free.images_per_s);
}

TEST(BenchSimulate, TheSameSeedGivesTheSameNumbers) {
  StepProfile profile = quiet_profile();
  profile.noise = 0.1;
  profile.runs = {0.9, 1.0, 1.1};
  const auto once = [&](std::uint64_t seed) {
    return simulate(profile, fabric_of(1e-5, 1e9), kFree, 64, {.draws = 20, .seed = seed});
  };
  EXPECT_EQ(once(1).images_per_s, once(1).images_per_s);
  EXPECT_NE(once(1).images_per_s, once(2).images_per_s);
  EXPECT_LT(once(1).interval.low, once(1).interval.high);
}

TEST(BenchSimulate, AProfileIsTakenFromAResult) {
  TrainResult result;
  result.parameters = 25'000'000;
  result.batch = 32;
  result.accumulate = 2;
  result.parts = {.input = 1, .forward = 100, .backward = 200, .exposed = 50, .optimizer = 8, .rest = 1};
  result.repeats = {{.images_per_s = 90, .jitter = 9}, {.images_per_s = 110, .jitter = 0}};
  const StepProfile profile = profile_of(result);
  EXPECT_DOUBLE_EQ(profile.forward, 0.1);
  EXPECT_DOUBLE_EQ(profile.rest, 0.01);
  EXPECT_DOUBLE_EQ(profile.bytes, 1e8);
  EXPECT_EQ(profile.buckets, 4);
  EXPECT_EQ(profile.images, 64);
  EXPECT_DOUBLE_EQ(profile.noise, 0.05);
  EXPECT_EQ(profile.runs, (std::vector<double>{0.9, 1.1}));
}

TEST(BenchSimulate, ReadsMeasuredCollectives) {
  const Scratch scratch;
  const auto read = [&](const std::string& text) {
    std::ofstream(scratch.file("net.json")) << text;
    return read_fabric(scratch.file("net.json"), Fabric::kLinks);
  };
  const std::string rows =
      R"([{"size":1000000,"experiment_name":"all_reduce","out_of_place":{"time":1020.0},"in_place":null},
    {"size":2000000,"experiment_name":"all_reduce","out_of_place":{"time":2020.0},"in_place":{"time":2020.0}},
    {"size":8,"experiment_name":"broadcast","out_of_place":{"time":1e9}}])";
  const auto measured = read(R"({"config":{"devices":[{},{}]},"results":)" + rows + "}");
  ASSERT_TRUE(measured) << measured.error().to_string();
  ASSERT_EQ(measured->points.size(), 3U);
  const CostModel model = fit_cost(measured->points, Fabric::kLinks);
  EXPECT_NEAR(model.latency, 1e-5, 1e-9);
  EXPECT_NEAR(model.seconds_per_byte, 1e-9, 1e-13);
  for (const std::string& bad :
       {std::string("{"), std::string("[]"), std::string("{}"), R"({"config":{"devices":[{}]},"results":)" + rows + "}",
        std::string(R"({"config":{"devices":[{},{}]},"results":[1,{"size":"8"}]})")}) {
    const auto refused = read(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_THAT(refused.error().message(), HasSubstr("net.json: "));
  }
}

}  // namespace
}  // namespace xoe::bench
