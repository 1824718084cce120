#include "core/base/plot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "core/testing/scratch.h"

namespace xoe {
namespace {

TEST(Plot, TicksAreRoundAndCoverTheRange) {
  EXPECT_EQ(axis_ticks(0, 1, 5), (std::vector<double>{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}));
  for (const auto& [low, high] :
       {std::pair{0.0, 2.31}, {0.0, 470.0}, {0.0, 1e-3}, {0.0, 1e30}, {1e15, 1e15 + 1}, {3.0, 3.0}, {-2.0, 7.0}}) {
    const auto ticks = axis_ticks(low, high, 5);
    ASSERT_GE(ticks.size(), 2U);
    EXPECT_LE(ticks.size(), 9U) << high;
    EXPECT_LE(ticks.front(), low + 1e-12);
    EXPECT_GE(ticks.back(), high - 1e-12 * std::max(1.0, high));
  }
}

TEST(Plot, DrawsOnTheGroundOfThePage) {
  Svg svg(100, 80, {.ink = "var(--ink)", .faint = "var(--faint)", .grid = "var(--grid)", .ground = ""});
  PlotPanel panel(svg, {.left = 20, .top = 5, .width = 70, .height = 40}, {.low = 0, .high = 10},
                  {.low = 0, .high = 0.9}, PlotUnit::kShare);
  EXPECT_EQ(panel.y().high, 1);
  std::vector<PlotPoint> points;
  for (int i = 0; i <= 5000; ++i) points.push_back({i / 500.0, 0.5});
  panel.line(points, "var(--first)", 2);
  const std::string text = std::move(svg).finish();
  EXPECT_FALSE(contains(text, "#"));  // no colour of its own
  EXPECT_TRUE(contains(text, "var(--grid)"));
  EXPECT_TRUE(contains(text, ">100 %<"));
  EXPECT_LT(text.size(), 20'000U);
}

TEST(Plot, AxesHavePowersAndNames) {
  const auto drawn = [](PlotUnit unit, const XAxis& axis) {
    Svg svg(500, 300);
    const PlotPanel panel(svg, {.left = 60, .top = 10, .width = 400, .height = 200}, {.low = 0.5, .high = 20},
                          {.low = 0, .high = 3}, unit, axis);
    return std::move(svg).finish();
  };
  const std::string powers = drawn(PlotUnit::kPowerOfTen, {.label = "bytes", .powers_of_two = true});
  for (const char* part : {">1000<", ">32<", ">32K<", ">1M<", ">bytes<"}) EXPECT_TRUE(contains(powers, part)) << part;
  const std::vector<std::string> names = {"a<b", "/a/long/path/to/a/result.json"};
  Svg svg(500, 300);
  const PlotPanel panel(svg, {.left = 60, .top = 10, .width = 400, .height = 200}, {.low = 0.5, .high = 2.5}, {},
                        PlotUnit::kChange, {.names = names});
  const std::string named = std::move(svg).finish();
  EXPECT_TRUE(contains(named, ">a&lt;b<"));
  EXPECT_TRUE(contains(named, "to/a/result.json<"));
  EXPECT_FALSE(contains(named, ">1.5<"));
  // So many that they do not fit are numbers, and whole ones.
  const std::vector<std::string> many(19, "result");
  const std::string numbered = drawn(PlotUnit::kNumber, {.names = many});
  EXPECT_TRUE(contains(numbered, ">5<"));
  EXPECT_FALSE(contains(numbered, "result"));
}

TEST(Plot, ForeignTextStaysText) {
  Svg svg(10, 10);
  svg.text(0, 0, Svg::Anchor::kStart, "#000", 12, "a<b>\x01\xff&\xc3\xa4");
  EXPECT_TRUE(contains(std::move(svg).finish(), ">a&lt;b>\uFFFD\uFFFD&amp;\u00e4</text>"));
}

}  // namespace
}  // namespace xoe
