// When ranks are killed, and what is made of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "measure/cli/failures/failure_report.h"
#include "measure/cli/failures/kill_schedule.h"

namespace xoe::bench {
namespace {

using testing::HasSubstr;

TEST(KillSchedule, IsAFunctionOfTheSeedWithThisMean) {
  KillSchedule first(4, 3, 7), again(4, 3, 7), other(4, 3, 8);
  double before = 0;
  int differ = 0;
  std::array<int, 3> of_rank = {};
  constexpr int kMany = 10'000;
  for (int i = 0; i < kMany; ++i) {
    const Kill kill = first.next(), same = again.next();
    ASSERT_EQ(kill.seconds, same.seconds);
    ASSERT_EQ(kill.rank, same.rank);
    differ += other.next().seconds == kill.seconds ? 0 : 1;
    ASSERT_GE(kill.seconds, before);
    before = kill.seconds;
    ASSERT_TRUE(kill.rank >= 0 && kill.rank < 3);
    ++of_rank[static_cast<std::size_t>(kill.rank)];
  }
  EXPECT_NEAR(before / kMany, 4, 0.2);
  EXPECT_EQ(differ, kMany);
  for (const int kills : of_rank) EXPECT_NEAR(kills, kMany / 3, 300);
}

TEST(FailureReport, ComparesEachWayWithItselfWithoutFailures) {
  const FailureStudy study = {
      .options = {.ranks = 2, .steps = 100, .seed = 5},
      .checkpoint_every = 10,
      .training = "--model mlp",
      .runs = {{.way = "goes on", .seconds = 10, .starts = 1},
               {.way = "goes on", .mean_seconds = 5, .seconds = 12.5, .kills = 2, .starts = 1},
               {.way = "mine", .seconds = 20, .starts = 1},
               {.way = "mine", .mean_seconds = 5, .seconds = 80, .kills = 4, .missed = 1, .redone = 30, .starts = 5}}};
  EXPECT_DOUBLE_EQ(goodput_of(study, study.runs[1]), 0.8);
  EXPECT_DOUBLE_EQ(seconds_per_failure(study, study.runs[1]), 1.25);
  EXPECT_DOUBLE_EQ(goodput_of(study, study.runs[3]), 0.25);
  EXPECT_DOUBLE_EQ(seconds_per_failure(study, study.runs[3]), 15);
  EXPECT_DOUBLE_EQ(seconds_per_failure(study, study.runs[2]), 0);
  const std::string text = failures_text(study);
  EXPECT_THAT(text, HasSubstr("100 steps of 2 ranks under failures"));
  EXPECT_THAT(text, HasSubstr("4 + 1 missed"));
  EXPECT_THAT(text, HasSubstr("25.0 %"));
  const auto json = to_json(study);
  EXPECT_EQ(json["runs"][3]["steps_redone"], 30);
  EXPECT_EQ(json["runs"][3]["goodput"], 0.25);
  EXPECT_THAT(failures_page(study), HasSubstr("<svg"));
}

}  // namespace
}  // namespace xoe::bench
