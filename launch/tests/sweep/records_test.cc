#include "launch/sweep/trial_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/testing/scratch.h"

namespace xoe::launch {
namespace {

using testing::HasSubstr;

const std::vector<Trial> kTrials{{{"a", "1"}}, {{"a", "2"}}, {{"a", "3"}}};

Result<TrialRecords> open_in(const Scratch& scratch, const std::vector<Trial>& trials = kTrials) {
  return TrialRecords::open(scratch.file("sweep"), trials, {"program"}, "accuracy");
}

TEST(TrialRecords, StayForTheNextSweep) {
  const Scratch scratch;
  {
    auto records = open_in(scratch);
    ASSERT_TRUE(records) << records.error().message();
    ASSERT_TRUE(records->add(2, {.code = 0, .seconds = 1.5, .metric = 0.25}));
    ASSERT_TRUE(records->add(0, {.code = 3, .seconds = 2, .metric = {}, .problem = "exit code 3: \xff"}));
    EXPECT_THAT(open_in(scratch).error().message(), HasSubstr("another xoe sweep works in"));
  }
  // A killed sweep leaves the beginning of a line.
  std::ofstream(scratch.file("sweep") + "/results.jsonl", std::ios::app) << R"({"trial": 1, "co)";
  {
    auto records = open_in(scratch);
    ASSERT_TRUE(records) << records.error().message();
    EXPECT_EQ(records->of(2).value().metric, 0.25);
    EXPECT_EQ(records->of(2).value().seconds, 1.5);
    EXPECT_THAT(records->of(0).value().problem, HasSubstr("exit code 3"));
    EXPECT_FALSE(records->of(1));
    ASSERT_TRUE(records->add(1, {.code = 0}));
  }
  EXPECT_TRUE(open_in(scratch).value().of(1));
}

TEST(TrialRecords, OtherTrialsAreRefused) {
  const Scratch scratch;
  ASSERT_TRUE(open_in(scratch));
  const auto other = open_in(scratch, {{{"a", "1"}}});
  EXPECT_EQ(other.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(other.error().message(), HasSubstr("choose another --dir"));
}

TEST(TrialRecords, ForeignLinesAreLeftOut) {
  const Scratch scratch;
  ASSERT_TRUE(open_in(scratch));
  std::ofstream(scratch.file("sweep") + "/results.jsonl")
      << "[]\nnull\n{\"trial\": 9, \"code\": 0}\n{\"trial\": -1, \"code\": 0}\n{\"trial\": 1, \"code\": \"x\"}\n"
         "{\"trial\": 0, \"code\": 0}\n{\"trial\": 2, \"code\": 0, \"metric\": \"high\", \"seconds\": [], \"problem\": "
         "3}\n";
  const auto records = open_in(scratch);
  ASSERT_TRUE(records) << records.error().message();
  EXPECT_FALSE(records->of(0));
  ASSERT_TRUE(records->of(1));
  EXPECT_FALSE(records->of(1)->metric);
}

}  // namespace
}  // namespace xoe::launch
