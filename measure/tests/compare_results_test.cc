// Comparisons of results of `xoe bench train`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "measure/cli/compare.h"

namespace xoe::bench {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Measurement result_of(const std::string& name, const std::vector<double>& speeds, int batch = 4) {
  TrainResult result;
  result.model = "resnet18";
  result.batch = batch;
  for (const double speed : speeds) result.repeats.push_back({.images_per_s = speed, .step_ms = 1000 / speed});
  return measurement_of(name, result);
}

Measurement times_of(const std::string& name, const std::vector<double>& times) {
  return {.name = name, .series = name, .quantity = "ms to start", .less_is_better = true, .runs = times};
}

Verdict verdict(const std::vector<double>& before, const std::vector<double>& after) {
  return compare_results({result_of("a", before), result_of("b", after)}, 1).quantities[0].compared[1].verdict;
}

TEST(BenchCompare, TellsAChangeFromNoise) {
  const std::vector<double> before = {100, 102, 98, 101, 99};
  EXPECT_EQ(verdict(before, {110, 112, 108, 111, 109}), Verdict::kBetter);
  EXPECT_EQ(verdict(before, {90, 92, 88, 91, 89}), Verdict::kWorse);
  EXPECT_EQ(verdict(before, {101, 98, 103, 99, 100}), Verdict::kNoise);
  EXPECT_EQ(verdict(before, before), Verdict::kNoise);
}

TEST(BenchCompare, AFewRunsTellNothing) {
  const Comparison comparison = compare_results({result_of("a", {100}), result_of("b", {200})}, 1);
  EXPECT_EQ(comparison.quantities[0].compared[1].verdict, Verdict::kTooFewRuns);
  EXPECT_DOUBLE_EQ(comparison.quantities[0].compared[1].change, 1);
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
  Measurement other = result_of("b", {1, 1, 1, 1, 1}, 8);
  other.emulated_images_per_s = 5;
  const auto notes = compare_results({result_of("a", {1, 1, 1, 1, 1}), other}, 1).notes;
  EXPECT_THAT(notes, Contains("batch differs: 4 in a, 8 in b"));
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

TEST(BenchCompare, TheSameNameInSeveralFilesTellsTheFile) {
  const std::vector<double> runs = {1, 2};
  MeasurementFile first, second;
  first.measurements = {times_of("ours", runs), times_of("gloo", runs)};
  second.measurements = {times_of("ours", runs), result_of("gloo", runs)};
  const auto results = results_of({{"a.json", first}, {"b.json", second}});
  ASSERT_EQ(results.size(), 4U);
  EXPECT_EQ(results[0].name, "ours in a.json");
  EXPECT_EQ(results[1].name, "gloo");  // in the other file it is of another quantity
  EXPECT_EQ(results[2].name, "ours in b.json");
}

TEST(BenchCompare, ThePictureHasTheMeansAndHowManyTimesTheFirstTheyAre) {
  Comparison comparison = compare_results(
      {times_of("ours", {10, 20, 30}), times_of("peer", {60}), result_of("a", {3000}), result_of("b", {1500})}, 1);
  EXPECT_THAT(comparison_svg(comparison), HasSubstr(">2 results compared<"));
  comparison.title = "Starts";
  const std::string picture = comparison_svg(comparison);
  for (const char* text : {">Starts<", ">ms to start<", ">20<", ">60 (3x)<", ">images/s<", ">3000<", ">1500 (0.5x)<"})
    EXPECT_THAT(picture, HasSubstr(text));
}

TEST(BenchCompare, TheSameSeedGivesTheSameJson) {
  const std::vector<Measurement> results = {result_of("a", {100, 102, 98, 101, 99}), result_of("b", {101, 99, 98})};
  const auto json = to_json(compare_results(results, 7));
  EXPECT_EQ(json, to_json(compare_results(results, 7)));
  EXPECT_EQ(json["results"][0]["verdict"], "baseline");
  EXPECT_EQ(json["results"][1]["runs"], 3);
}

TEST(BenchCompare, OfTimesTheShorterIsFaster) {
  const std::vector<double> before = {100, 102, 98, 101, 99}, after = {110, 112, 108, 111, 109};
  const auto verdict_of = [](const std::vector<double>& first, const std::vector<double>& second) {
    return compare_results({times_of("a", first), times_of("b", second)}, 1).quantities[0].compared[1].verdict;
  };
  EXPECT_EQ(verdict_of(before, after), Verdict::kWorse);
  EXPECT_EQ(verdict_of(after, before), Verdict::kBetter);
}

TEST(BenchCompare, EachQuantityIsComparedWithItsFirstResult) {
  const std::vector<double> five = {100, 102, 98, 101, 99};
  const Comparison comparison = compare_results(
      {result_of("a", five), times_of("a", five), result_of("b", five), times_of("b", {1, 1, 1, 1, 1})}, 1);
  ASSERT_EQ(comparison.quantities.size(), 2U);
  EXPECT_EQ(comparison.quantities[0].results[1].name, "b");
  EXPECT_NEAR(comparison.quantities[1].compared[1].change, -0.99, 1e-9);
  const std::string text = comparison_text(comparison);
  EXPECT_THAT(text, HasSubstr("images/s"));
  EXPECT_THAT(text, HasSubstr("ms to start"));
  EXPECT_EQ(to_json(comparison)["results"][3]["quantity"], "ms to start");
}

}  // namespace
}  // namespace xoe::bench
