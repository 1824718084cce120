#include "launch/sweep/trial_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"

namespace xoe::launch {
namespace {

using testing::ElementsAre;

TEST(TrialCommand, PlaceholdersAndOptions) {
  const Trial trial{{"lr", "0.1"}, {"depth", "{lr}"}};
  EXPECT_THAT(command_of({"train", "--lr", "{lr}", "--out={dir}/{trial}", "{}", "{x}", "{lr"}, trial, 3, "f/trial.3"),
              ElementsAre("train", "--lr", "0.1", "--out=f/trial.3/3", "{}", "{x}", "{lr", "--depth={lr}"));
  EXPECT_THAT(command_of({"{lr}{lr}{depth}"}, trial, 0, ""), ElementsAre("0.10.1{lr}"));
}

TEST(TrialCommand, TheLastValueCounts) {
  EXPECT_EQ(last_value("accuracy=0.5\nepoch 2: accuracy=0.75 loss=1\n", "accuracy"), 0.75);
  EXPECT_EQ(last_value("accuracy: 0.5, top", "accuracy"), 0.5);
  EXPECT_EQ(last_value(R"({"step": 3, "accuracy": 9.1e-1, "x": 2})", "accuracy"), 0.91);
  EXPECT_EQ(last_value("loss=-inf\nloss=-3.\nloss is fine", "loss"), -3);
  EXPECT_EQ(last_value("accuracy: 0.93.", "accuracy"), 0.93);
  EXPECT_EQ(last_value("accuracy=0.5s", "accuracy"), 0.5);
  for (const char* text : {"nan", "NaN,", "-inf", "null}", "None"})
    EXPECT_TRUE(std::isnan(last_value(fmt::format("accuracy=0.1 accuracy={}", text), "accuracy").value())) << text;
  EXPECT_EQ(last_value("val_accuracy=0.5 accuracy_top5=0.9", "accuracy"), std::nullopt);
  EXPECT_EQ(last_value("accuracy=0.4 val_accuracy=0.5 accuracy is", "accuracy"), 0.4);
  EXPECT_EQ(last_value("[0] loss=3\n[1] loss=4\n", "loss"), 3);
  EXPECT_EQ(last_value("[1] loss=4\nloss: 5", "loss"), 5);
  EXPECT_EQ(last_value("accuracy", "accuracy"), std::nullopt);
  EXPECT_EQ(last_value("", "accuracy"), std::nullopt);
  EXPECT_EQ(last_value("accuracy=1", ""), std::nullopt);
}

}  // namespace
}  // namespace xoe::launch
