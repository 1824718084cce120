#include "launch/sweep/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/sweep/sweep.h"

namespace xoe::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Parameter parameter(std::string_view text) { return parse_parameter(text).value(); }

std::vector<std::string> texts(const std::vector<Trial>& trials) {
  std::vector<std::string> all;
  for (const Trial& trial : trials) all.push_back(text_of(trial));
  return all;
}

TEST(SweepSpace, Parameters) {
  EXPECT_THAT(parameter("lr=0.1,1e-2").values, ElementsAre("0.1", "1e-2"));
  EXPECT_THAT(parameter("path=a=b,c:d").values, ElementsAre("a=b", "c:d"));
  EXPECT_THAT(parameter("x=,y").values, ElementsAre("", "y"));
  const Parameter range = parameter("lr=log:1e-4..0.1");
  EXPECT_TRUE(range.is_range());
  EXPECT_EQ(range.low, 1e-4);
  EXPECT_EQ(range.high, 0.1);
  for (const char* text : {"", "lr", "=1", "lr=", "a b=1", "x=1..", "x=2..1", "x=log:0..1", "x=int:0.5..2", "x=log:1,2",
                           "x=nan..1", "x=0..inf", "x=int:0..1e300"})
    EXPECT_FALSE(parse_parameter(text)) << text;
  EXPECT_THAT(parse_parameter("x=log:0..1").error().message(), HasSubstr("above 0"));
}

TEST(SweepSpace, AllCombinations) {
  const auto trials = all_trials({parameter("a=1,2"), parameter("b=x,y")}).value();
  EXPECT_THAT(texts(trials), ElementsAre("a=1 b=x", "a=1 b=y", "a=2 b=x", "a=2 b=y"));
  EXPECT_THAT(all_trials({parameter("a=0..1")}).error().message(), HasSubstr("--random N"));
  std::string many = "a=0";
  for (int i = 1; i < 1000; ++i) many += fmt::format(",{}", i);
  std::vector<Parameter> three{parameter(many), parameter("b" + many.substr(1)), parameter("c" + many.substr(1))};
  EXPECT_THAT(all_trials(three).error().message(), HasSubstr("more than 100000"));
}

TEST(SweepSpace, WhatIsDrawnLiesInItsRange) {
  const std::vector<Parameter> parameters{parameter("a=log:1e-4..1"), parameter("n=int:2..4"), parameter("u=-1..1"),
                                          parameter("c=x,y")};
  const auto trials = drawn_trials(parameters, 400, 7);
  EXPECT_EQ(texts(trials), texts(drawn_trials(parameters, 400, 7)));
  EXPECT_NE(texts(trials), texts(drawn_trials(parameters, 400, 8)));
  std::set<std::string> whole, words;
  int small = 0;
  for (const Trial& trial : trials) {
    const double a = parse_number(trial[0].second).value(), u = parse_number(trial[2].second).value();
    EXPECT_TRUE(a >= 1e-4 && a <= 1 && u >= -1 && u <= 1) << text_of(trial);
    small += a < 1e-2 ? 1 : 0;
    whole.insert(trial[1].second);
    words.insert(trial[3].second);
  }
  EXPECT_THAT(whole, ElementsAre("2", "3", "4"));
  EXPECT_THAT(words, ElementsAre("x", "y"));
  // Half of a logarithmic range's draws lie below its geometric mean: 400 draws have a deviation of 10.
  EXPECT_NEAR(small, 200, 60);
}

TEST(SweepSpace, ValuesAloneAreDrawnOnceEach) {
  const std::vector<Parameter> parameters{parameter("a=1,2,3"), parameter("b=x,y")};
  const auto some = texts(drawn_trials(parameters, 4, 1));
  EXPECT_EQ(std::set<std::string>(some.begin(), some.end()).size(), 4U);
  EXPECT_EQ(drawn_trials(parameters, 99, 1).size(), 6U);
}

TEST(SweepSlots, OneForAsManyGpusOrCoresAsATrialNeeds) {
  EXPECT_EQ(slots_for(0, 1, {}, 8).value().size(), 8U);
  EXPECT_EQ(slots_for(0, 3, {}, 8).value().size(), 2U);
  EXPECT_EQ(slots_for(0, 9, {}, 8).value().size(), 1U);
  EXPECT_EQ(slots_for(20, 1, {}, 8).value().size(), 20U);
  EXPECT_THAT(slots_for(0, 2, {"a", "b", "c", "d", "e"}, 8).value(),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("c", "d")));
  EXPECT_THAT(slots_for(1, 1, {"a", "b"}, 8).value(), ElementsAre(ElementsAre("a")));
  EXPECT_THAT(slots_for(3, 1, {"a", "b"}, 8).error().message(), HasSubstr("2 GPUs there is room for 2 trials"));
  EXPECT_THAT(slots_for(0, 3, {"a", "b"}, 8).error().message(), HasSubstr("this machine has 2"));
}

}  // namespace
}  // namespace xoe::launch
