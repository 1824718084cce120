#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/engine/options/engine_options.h"

namespace xoe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

using Values = std::map<std::string, std::string, std::less<>>;

struct Read {
  Result<EngineOptions> options;
  std::vector<std::string> warnings;
};

Read read(Values values) {
  std::vector<std::string> warnings;
  auto options = read_engine_options(Env(std::move(values)), warnings);
  return {std::move(options), std::move(warnings)};
}

TEST(EngineOptions, DefaultsWithoutVariables) {
  const auto [options, warnings] = read({{"PATH", "/bin"}, {"XOE_RANK", "1"}});
  ASSERT_TRUE(options);
  const EngineOptions defaults;
  EXPECT_EQ(options->fusion_threshold, defaults.fusion_threshold);
  EXPECT_EQ(options->pack_limit, defaults.pack_limit);
  EXPECT_EQ(options->in_flight, defaults.in_flight);
  EXPECT_EQ(options->cache_capacity, defaults.cache_capacity);
  EXPECT_EQ(options->codec_state, defaults.codec_state);
  EXPECT_TRUE(options->tune);
  EXPECT_TRUE(options->progress_thread);
  EXPECT_EQ(options->stall_warning, 10s);
  EXPECT_EQ(options->stall_limit, 600s);
  EXPECT_TRUE(options->stall_spares_computing);
  EXPECT_EQ(options->timeline, "");
  EXPECT_EQ(options->metrics_port, -1);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(EngineOptions, ReadsEachOfItsOwn) {
  const auto [options, warnings] = read({{"XOE_FUSION_THRESHOLD", "1.5M"},
                                         {"XOE_PACK_LIMIT", "64KiB"},
                                         {"XOE_IN_FLIGHT", "3"},
                                         {"XOE_CACHE_CAPACITY", "100"},
                                         {"XOE_CODEC_STATE", "1G"},
                                         {"XOE_TUNE", "1"},
                                         {"XOE_TUNE_FILE", "tuned.json"},
                                         {"XOE_PROGRESS_THREAD", "0"},
                                         {"XOE_STALL_WARNING", "2.5"},
                                         {"XOE_STALL_LIMIT", "600"},
                                         {"XOE_TIMELINE", "trace.json"},
                                         {"XOE_NVTX", "1"},
                                         {"XOE_METRICS_PORT", "9100"}});
  ASSERT_TRUE(options) << options.error().to_string();
  EXPECT_EQ(options->fusion_threshold, 1572864U);
  EXPECT_EQ(options->pack_limit, 65536U);
  EXPECT_EQ(options->in_flight, 3);
  EXPECT_EQ(options->cache_capacity, 100);
  EXPECT_EQ(options->codec_state, std::size_t{1} << 30);
  EXPECT_TRUE(options->tune);
  EXPECT_EQ(options->tune_file, "tuned.json");
  EXPECT_EQ(options->nvtx, true);
  EXPECT_FALSE(options->progress_thread);
  EXPECT_EQ(options->stall_warning, 2500ms);
  EXPECT_EQ(options->stall_limit, 600s);
  EXPECT_FALSE(options->stall_spares_computing) << "a limit of the user's is exact";
  EXPECT_EQ(options->timeline, "trace.json");
  EXPECT_EQ(options->metrics_port, 9100);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(EngineOptions, WhatSomebodyChoseIsNotTuned) {
  EXPECT_FALSE(read({{"XOE_FUSION_THRESHOLD", "0"}}).options->tune);
  EXPECT_FALSE(read({{"XOE_PACK_LIMIT", "1M"}}).options->tune);
  EXPECT_FALSE(read({{"XOE_IN_FLIGHT", "1"}}).options->tune);
  EXPECT_FALSE(read({{"HOROVOD_FUSION_THRESHOLD", "1048576"}}).options->tune);
  EXPECT_TRUE(read({{"XOE_IN_FLIGHT", "1"}, {"HOROVOD_AUTOTUNE", "1"}}).options->tune);
  EXPECT_FALSE(read({{"XOE_TUNE", "0"}, {"HOROVOD_AUTOTUNE", "1"}}).options->tune);
}

TEST(EngineOptions, ReadsHorovodsWhereTheyHaveAMeaning) {
  const auto [options, warnings] = read({{"HOROVOD_FUSION_THRESHOLD", "33554432"},
                                         {"HOROVOD_CACHE_CAPACITY", "2048"},
                                         {"HOROVOD_TIMELINE", "hvd.json"},
                                         {"HOROVOD_AUTOTUNE", "0"},
                                         {"HOROVOD_STALL_CHECK_TIME_SECONDS", "30"},
                                         {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "120"}});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->fusion_threshold, 33554432U);
  EXPECT_EQ(options->cache_capacity, 2048);
  EXPECT_EQ(options->timeline, "hvd.json");
  EXPECT_FALSE(options->tune);
  EXPECT_EQ(options->stall_warning, 30s);
  EXPECT_EQ(options->stall_limit, 120s);
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(EngineOptions, ItsOwnWinOverHorovods) {
  const auto [options, warnings] = read({{"HOROVOD_FUSION_THRESHOLD", "broken"},
                                         {"XOE_FUSION_THRESHOLD", "2M"},
                                         {"HOROVOD_STALL_CHECK_DISABLE", "1"},
                                         {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "5"},
                                         {"XOE_STALL_WARNING", "7"},
                                         {"HOROVOD_TIMELINE", "theirs"},
                                         {"XOE_TIMELINE", "ours"}});
  ASSERT_TRUE(options) << options.error().to_string();
  EXPECT_EQ(options->fusion_threshold, 2097152U);
  EXPECT_EQ(options->stall_warning, 7s);
  EXPECT_EQ(options->stall_limit, 0s);  // a disabled check shuts nothing down
  EXPECT_EQ(options->timeline, "ours");
  EXPECT_THAT(warnings, IsEmpty());
}

TEST(EngineOptions, TheTimeoutOfOperationsIsALimitToo) {
  const auto [options, warnings] = read({{"XOE_TIMEOUT", "90"}});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->stall_limit, 90s);
  EXPECT_FALSE(options->stall_spares_computing);
  EXPECT_EQ(read({{"XOE_TIMEOUT", "90"}, {"XOE_STALL_LIMIT", "7"}}).options->stall_limit, 7s);
}

TEST(EngineOptions, RangesForAProfiler) {
  EXPECT_EQ(read({}).options->nvtx, std::nullopt);
  EXPECT_EQ(read({{"XOE_NVTX", "auto"}, {"HOROVOD_DISABLE_NVTX_RANGES", "1"}}).options->nvtx, std::nullopt);
  EXPECT_EQ(read({{"XOE_NVTX", "0"}}).options->nvtx, false);
  EXPECT_EQ(read({{"HOROVOD_DISABLE_NVTX_RANGES", "0"}}).options->nvtx, std::nullopt);
  const auto [options, warnings] = read({{"HOROVOD_DISABLE_NVTX_RANGES", "1"}});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->nvtx, false);
  EXPECT_THAT(warnings, IsEmpty());
  const auto malformed = read({{"XOE_NVTX", "yes"}}).options;
  ASSERT_FALSE(malformed);
  EXPECT_THAT(malformed.error().message(), HasSubstr("XOE_NVTX=yes: expected auto, or 0, 1, false or true"));
}

TEST(EngineOptions, SpecialValuesOfHorovod) {
  const auto [options, warnings] =
      read({{"HOROVOD_TIMELINE", "DYNAMIC"}, {"HOROVOD_CACHE_CAPACITY", "0"}, {"HOROVOD_STALL_CHECK_DISABLE", "1"}});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->timeline, "");
  EXPECT_EQ(options->cache_capacity, EngineOptions().cache_capacity);
  EXPECT_EQ(options->stall_warning, 0s);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("names are always remembered")));
  EXPECT_EQ(read({{"XOE_TIMELINE", "DYNAMIC"}}).options->timeline, "DYNAMIC");
}

TEST(EngineOptions, SaysWhyAVariableHasNoMeaning) {
  const auto [options, warnings] = read({{"HOROVOD_CYCLE_TIME", "3.5"},
                                         {"HOROVOD_RANK", "0"},
                                         {"HOROVOD_NUM_NCCL_STREAMS", "2"},
                                         {"HOROVOD_GLOO_TIMEOUT_SECONDS", "30"},
                                         {"HOROVOD_WITH_PYTORCH", "1"},
                                         {"HOROVOD_GPU_OPERATIONS", ""},
                                         {"HOROVOD_SURPRISE", "1"}});
  ASSERT_TRUE(options);
  EXPECT_THAT(warnings, ElementsAre(AllOf(HasSubstr("HOROVOD_CYCLE_TIME is set"), HasSubstr("there is no cycle: ")),
                                    HasSubstr("XOE_TIMEOUT"), HasSubstr("NCCL"), HasSubstr("xoe run"),
                                    HasSubstr("HOROVOD_SURPRISE is set and has no meaning here: neither"),
                                    HasSubstr("building of Horovod")));
}

TEST(EngineOptions, OwnValuesByHorovodsNamesAreNoNews) {
  EXPECT_THAT(read({{"XOE_RANK", "1"}, {"HOROVOD_RANK", "1"}}).warnings, ElementsAre());
  EXPECT_THAT(read({{"XOE_RANK", "1"}, {"HOROVOD_RANK", "2"}}).warnings, ElementsAre(HasSubstr("HOROVOD_RANK")));
}

TEST(EngineOptions, NamesTheMalformedVariable) {
  const std::vector<std::pair<std::string, std::string>> broken = {
      {"XOE_FUSION_THRESHOLD", "8Q"},
      {"XOE_FUSION_THRESHOLD", "-1"},
      {"XOE_FUSION_THRESHOLD", "2T"},
      {"XOE_PACK_LIMIT", "much"},
      {"XOE_IN_FLIGHT", "0"},
      {"XOE_IN_FLIGHT", "9"},
      {"XOE_CACHE_CAPACITY", "0"},
      {"XOE_CODEC_STATE", "all"},
      {"XOE_TUNE", "yes"},
      {"XOE_PROGRESS_THREAD", "2"},
      {"XOE_STALL_WARNING", "-1"},
      {"XOE_STALL_LIMIT", "nan"},
      {"XOE_METRICS_PORT", "65536"},
      {"HOROVOD_FUSION_THRESHOLD", "x"},
      {"HOROVOD_AUTOTUNE", "maybe"},
      {"HOROVOD_STALL_CHECK_TIME_SECONDS", "soon"},
  };
  for (const auto& [name, value] : broken) {
    const auto options = read({{name, value}}).options;
    ASSERT_FALSE(options) << name << "=" << value;
    EXPECT_EQ(options.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(options.error().message(), HasSubstr(name + "=" + value + ": expected "));
  }
}

}  // namespace
}  // namespace xoe
