// Comparisons of results of `xoe bench train`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/bench/compare.h"

namespace xoe::bench {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

NamedResult result_of(const std::string& name, const std::vector<double>& speeds) {
  NamedResult one{.name = name, .result = {}};
  one.result.model = "resnet18";
  for (const double speed : speeds) one.result.repeats.push_back({.images_per_s = speed, .step_ms = 1000 / speed});
  return one;
}

Verdict verdict(const std::vector<double>& before, const std::vector<double>& after) {
  return compare_results({result_of("a", before), result_of("b", after)}, 1).compared[1].verdict;
}

TEST(BenchCompare, TellsAChangeFromNoise) {
  const std::vector<double> before = {100, 102, 98, 101, 99};
  EXPECT_EQ(verdict(before, {110, 112, 108, 111, 109}), Verdict::kFaster);
  EXPECT_EQ(verdict(before, {90, 92, 88, 91, 89}), Verdict::kSlower);
  EXPECT_EQ(verdict(before, {101, 98, 103, 99, 100}), Verdict::kNoise);
  EXPECT_EQ(verdict(before, before), Verdict::kNoise);
}

TEST(BenchCompare, AFewRunsTellNothing) {
  const Comparison comparison = compare_results({result_of("a", {100}), result_of("b", {200})}, 1);
  EXPECT_EQ(comparison.compared[1].verdict, Verdict::kTooFewRuns);
  EXPECT_DOUBLE_EQ(comparison.compared[1].change, 1);
  EXPECT_THAT(comparison.notes, Contains(HasSubstr("--repeat 5")));
}

TEST(BenchCompare, PrintsATableWithTheFirstAsBaseline) {
  const std::string text = comparison_text(compare_results(
      {result_of("a.json", {100, 102, 98, 101, 99}), result_of("b.json", {110, 112, 108, 111, 109})}, 1));
  EXPECT_THAT(text, HasSubstr("baseline"));
  EXPECT_THAT(text, HasSubstr("+10.00 %"));
  EXPECT_THAT(text, HasSubstr("faster"));
}

TEST(BenchCompare, NotesOtherDifferencesAndEmulations) {
  EXPECT_THAT(compare_results({result_of("a", {1, 1, 1, 1, 1}), result_of("b", {1, 1, 1, 1, 1})}, 1).notes, IsEmpty());
  NamedResult other = result_of("b", {1, 1, 1, 1, 1});
  other.result.batch = 8;
  other.result.emulated_images_per_s = 5;
  const auto notes = compare_results({result_of("a", {1, 1, 1, 1, 1}), other}, 1).notes;
  EXPECT_THAT(notes, Contains("batch differs: 0 in a, 8 in b"));
  EXPECT_THAT(notes, Contains(HasSubstr("EMULATION: b")));
}

TEST(BenchCompare, ThePageHasATableAndAPlotAndNothingOfAFileAsMarkup) {
  const std::string page = comparison_page(
      compare_results({result_of("<b>a", {100, 102, 98, 101, 99}), result_of("b", {110, 112, 108, 111, 109})}, 1));
  EXPECT_THAT(page, HasSubstr("<svg"));
  EXPECT_THAT(page, HasSubstr("faster"));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;a"));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("<b>a")));
}

TEST(BenchCompare, TheSameSeedGivesTheSameJson) {
  const std::vector<NamedResult> results = {result_of("a", {100, 102, 98, 101, 99}), result_of("b", {101, 99, 98})};
  const auto json = to_json(compare_results(results, 7));
  EXPECT_EQ(json, to_json(compare_results(results, 7)));
  EXPECT_EQ(json["results"][0]["verdict"], "baseline");
  EXPECT_EQ(json["results"][1]["runs"], 3);
}

}  // namespace
}  // namespace xoe::bench
