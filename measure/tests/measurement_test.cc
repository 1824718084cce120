// Files of measurements, and how they stand beside published ones.
#include "measure/cli/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/cli/against.h"
#include "measure/cli/articles.h"

namespace xoe::bench {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BenchMeasurement, AFileHasSeveral) {
  const auto file = parse_measurements(R"({"benchmark": "measurements", "title": "t", "source": "s", "date": "d",
    "environment": {"host": "h"}, "measurements": [
    {"name": "a", "quantity": "ms", "less_is_better": true, "runs": [1, 2.5], "ranks": 2, "workload": {"model": "m", "batch": 4}},
    {"name": "b", "runs": [3], "series": "x", "approximate": true}]})",
                                       "f.json");
  ASSERT_TRUE(file) << file.error().message();
  EXPECT_EQ(file->title, "t");
  ASSERT_EQ(file->measurements.size(), 2U);
  const Measurement& a = file->measurements[0];
  EXPECT_EQ(a.quantity, "ms");
  EXPECT_TRUE(a.less_is_better);
  EXPECT_EQ(a.series, "t");
  EXPECT_THAT(a.runs, ElementsAre(1, 2.5));
  EXPECT_THAT(a.workload, ElementsAre(std::pair("model", "m"), std::pair("batch", "4")));
  EXPECT_THAT(a.environment, HasSubstr("\"h\""));
  EXPECT_EQ(file->measurements[1].quantity, "images/s");
  EXPECT_EQ(file->measurements[1].ranks, 0);
  EXPECT_TRUE(file->measurements[1].approximate);
}

TEST(BenchMeasurement, BrokenFilesAreRefusedWithTheReason) {
  const std::string head = R"({"benchmark": "measurements", "measurements": )";
  for (const auto& [text, why] : std::vector<std::pair<std::string, const char*>>{
           {"{", "no result"},
           {"[]", "no result"},
           {R"({"benchmark": "measurements"})", "no measurements"},
           {head + "[]}", "no measurements"},
           {head + "[1]}", "no object"},
           {head + R"([{"runs": [1]}]})", "without a name"},
           {head + R"([{"name": "a"}]})", "no runs for a"},
           {head + R"([{"name": "a", "runs": []}]})", "no runs for a"},
           {head + R"([{"name": "a", "runs": [0]}]})", "no positive number"},
           {head + R"([{"name": "a", "runs": ["1"]}]})", "no positive number"},
           {head + R"([{"name": "a", "runs": [1e400]}]})", "no result"},
           {head + R"([{"name": "a", "runs": [1], "ranks": 0}]})", "bad ranks"},
           {head + R"([{"name": "a", "runs": [1], "ranks": 1e9}]})", "bad ranks"},
           {head + R"([{"name": "a", "runs": [1], "quantity": 3}]})", "no quantity"},
           {head + R"([{"name": "a", "runs": [1], "workload": []}]})", "bad workload"},
           {R"({"benchmark": "xoe bench scale"})", "no sizes"},
           {R"({"benchmark": "xoe bench scale", "sizes": [1]})", "no result"},
           {R"({"benchmark": "xoe bench scale", "sizes": [{"result": {}}]})", "no result"}}) {
    const auto refused = parse_measurements(text, "f.json");
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(refused.error().message(), HasSubstr("f.json: "));
    EXPECT_THAT(refused.error().message(), HasSubstr(why)) << text;
  }
}

Measurement speed(const std::string& name, int ranks, double images_per_s) {
  return {.name = name, .series = name, .runs = {images_per_s}, .ranks = ranks};
}

TEST(BenchAgainst, TheArticlesAreReadAndNameTheirSource) {
  const auto articles = read_articles();
  ASSERT_TRUE(articles) << articles.error().message();
  for (const MeasurementFile& article : *articles) {
    EXPECT_THAT(article.source, HasSubstr("https://"));
    EXPECT_FALSE(article.date.empty());
    EXPECT_FALSE(article.title.empty());
  }
}

TEST(BenchAgainst, SpeedsStandBesideThoseOfAsManyRanks) {
  const auto against = stand_against({speed("one", 1, 100), speed("four", 4, 380)}, *read_articles());
  ASSERT_TRUE(against) << against.error().message();
  ASSERT_EQ(against->ours.size(), 2U);
  EXPECT_NEAR(against->ours[1].efficiency, 0.95, 1e-9);
  const auto virtual_machines =
      std::ranges::find_if(against->theirs, [](const auto& row) { return row.measurement.name == "VM, 4 nodes"; });
  ASSERT_NE(virtual_machines, against->theirs.end());
  EXPECT_NEAR(virtual_machines->efficiency, 0.968, 1e-3);  // as the article says
  const auto pair = std::ranges::find_if(
      against->pairs, [](const auto& one) { return one.ours == "four" && one.theirs == "bare metal, 4 nodes"; });
  ASSERT_NE(pair, against->pairs.end());
  EXPECT_NEAR(pair->ratio, 380 / 10818.0, 1e-9);
  // A quantity that is no speed stands beside none.
  EXPECT_FALSE(
      std::ranges::any_of(against->theirs, [](const auto& row) { return row.measurement.quantity != "images/s"; }));
  EXPECT_THAT(against->notes, Contains(HasSubstr("other machines")));
  EXPECT_THAT(against_text(*against), HasSubstr("about 2700.00"));
  const std::string page = against_page(*against);
  EXPECT_THAT(page, HasSubstr("VM, one GPU a node"));
  EXPECT_THAT(page, HasSubstr("<svg"));
}

TEST(BenchAgainst, ATimeAloneIsRefused) {
  const Measurement time = {
      .name = "a", .series = "a", .quantity = "ms", .less_is_better = true, .runs = {1}, .ranks = 1};
  EXPECT_FALSE(stand_against({time}, *read_articles()));
  const auto against = stand_against({time, speed("b", 1, 2)}, *read_articles());
  ASSERT_TRUE(against);
  EXPECT_THAT(against->notes, Contains(HasSubstr("1 measurement left out")));
}

}  // namespace
}  // namespace xoe::bench
