#include "measure/pages/scores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "core/testing/scratch.h"

namespace xoe::pages {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr int kImages = 2000;

// Two labels, of which Mass has scores of deviation `noise`, and Hernia one positive.
json scores(double noise, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::mt19937 more(seed + 1);
  json file = {{"format", 1},
               {"title", "<b>a network</b>"},
               {"data", "/nowhere"},
               {"split", "test"},
               {"facts", {{"model", "<i>x</i>"}}},
               {"labels", {"Mass", "Hernia"}},
               {"images", json::array()},
               {"scores", {json::array(), json::array()}}};
  std::string mass;
  std::string hernia;
  for (int i = 0; i < kImages; ++i) {
    file["images"].push_back(std::to_string(i) + ".png");
    mass += i % 4 == 0 ? '1' : '0';
    hernia += i == 7 ? '1' : '0';
    const double lesion = std::normal_distribution<>(i % 4 == 0 ? 1 : 0, 1)(random);  // what the ideal observer sees
    file["scores"][0].push_back(lesion + noise * std::normal_distribution<>()(more));
    file["scores"][1].push_back(0.5);
  }
  file["targets"] = {mass, hernia};
  return file;
}

class ScoresTest : public testing::Test {
 protected:
  // Phantoms whose ideal observer's scores are those without noise.
  void put_phantoms(double ideal) {
    put_file(scratch_.file("phantoms.json"),
             json({{"labels", {{{"label", "Mass"}, {"ideal_auroc", ideal}, {"monte_carlo_error", 0.001}}}}}).dump());
    const json best = scores(0);
    std::string table = "Image Index,Mass\n";
    for (int i = 0; i < kImages; ++i)
      table += std::to_string(i) + ".png," +
               std::to_string(best["scores"][0][static_cast<std::size_t>(i)].get<double>()) + "\n";
    put_file(scratch_.file("ideal_scores.csv"), table);
  }
  Result<ScoresRecord> read(const json& file) {
    put_file(path(), file.dump());
    return read_scores(path(), scratch_.path());
  }
  std::string path() const { return scratch_.file("scores.json"); }

  Scratch scratch_;
};

TEST_F(ScoresTest, RealDataHaveNoIdeal) {
  const auto record = read(scores(1));
  ASSERT_TRUE(record) << record.error().message();
  EXPECT_FALSE(record->phantoms);
  EXPECT_FALSE(record->share_of_ideal());
  ASSERT_TRUE(record->labels[0].auroc);
  EXPECT_NEAR(record->labels[0].auroc->value, 0.69, 0.05);  // Phi(1 / 2)
  EXPECT_EQ(record->labels[0].auroc->positives, kImages / 4);
  EXPECT_FALSE(record->labels[1].auroc);  // one positive
  EXPECT_EQ(record->mean, record->labels[0].auroc->value);
  const std::string html = scores_page(*record);
  EXPECT_THAT(html, HasSubstr("Reproductions differ"));
  EXPECT_THAT(html, Not(HasSubstr("phantoms: nothing")));
  EXPECT_THAT(html, HasSubstr("too few images"));
  EXPECT_THAT(html, HasSubstr("0.8676"));  // CheXNet's Mass
  EXPECT_THAT(html, Not(HasSubstr("<b>a network")));
  EXPECT_THAT(html, Not(HasSubstr("<i>x")));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
}

TEST_F(ScoresTest, PhantomsHaveTheIdealBesideThem) {
  put_phantoms(0.76);
  const auto record = read(scores(0.3));
  ASSERT_TRUE(record) << record.error().message();
  EXPECT_TRUE(record->phantoms);
  ASSERT_TRUE(record->labels[0].ideal && record->labels[0].ideal->on_images);
  ASSERT_TRUE(record->share_of_ideal_on_images());
  EXPECT_LT(*record->share_of_ideal_on_images(), 1);
  EXPECT_GT(*record->share_of_ideal_on_images(), 0.9);
  EXPECT_THAT(record->exceeding(), IsEmpty());
  EXPECT_THAT(scores_page(*record), HasSubstr("These are phantoms: nothing medical follows"));
  EXPECT_THAT(scores_summary(*record), HasSubstr("no finding is significantly above the ideal"));
  const auto same = read(scores(0));
  ASSERT_TRUE(same);
  EXPECT_NEAR(*same->share_of_ideal_on_images(), 1, 1e-4);  // the table has six digits
  EXPECT_THAT(same->exceeding(), IsEmpty());
}

TEST_F(ScoresTest, WhatIsAboveTheIdealIsFound) {
  put_phantoms(0.76);
  json file = scores(0.3);
  for (std::size_t i = 0; i < kImages; i += 8)  // some of the positives were in training
    file["scores"][0][i] = file["scores"][0][i].get<double>() + 3;
  const auto record = read(file);
  ASSERT_TRUE(record);
  EXPECT_THAT(record->exceeding(), ElementsAre("Mass"));
  EXPECT_THAT(scores_page(*record), HasSubstr("Mass is significantly above what can be reached"));
  // Without scores of the ideal observer its AUROC alone is compared.
  std::filesystem::remove(scratch_.file("ideal_scores.csv"));
  const auto alone = read(file);
  ASSERT_TRUE(alone);
  EXPECT_FALSE(alone->share_of_ideal_on_images());
  EXPECT_THAT(alone->exceeding(), ElementsAre("Mass"));
}

TEST_F(ScoresTest, OtherFilesAreRefused) {
  const auto message = [&](const std::function<void(json&)>& change) {
    json file = scores(1);
    change(file);
    const auto record = read(file);
    EXPECT_FALSE(record);
    return record ? std::string() : record.error().message();
  };
  EXPECT_THAT(message([](json& file) { file["format"] = 2; }), HasSubstr("no file of scores"));
  EXPECT_THAT(message([](json& file) { file = "text"; }), HasSubstr("no file of scores"));
  EXPECT_THAT(message([](json& file) { file.erase("images"); }), HasSubstr("images"));
  EXPECT_THAT(message([](json& file) { file["labels"].push_back("Edema"); }), HasSubstr("3 labels, 2 columns"));
  EXPECT_THAT(message([](json& file) { file["scores"][1].erase(0); }),
              HasSubstr("label 1: 2000 targets and 1999 scores"));
  EXPECT_THAT(message([](json& file) { file["scores"][0][3] = nullptr; }), HasSubstr("null"));
  EXPECT_THAT(message([](json& file) { file["targets"][0] = std::string(kImages, '2'); }),
              HasSubstr("neither 0 nor 1"));
  EXPECT_THAT(message([](json& file) { file["targets"][0] = std::string(kImages, '0'); }),
              HasSubstr("none of 2 labels"));
  put_file(path(), "{");
  EXPECT_FALSE(read_scores(path(), ""));
  EXPECT_EQ(read_scores(scratch_.file("none.json"), "").error().code(), Code::kUnavailable);
  put_file(scratch_.file("phantoms.json"), "[]");
  EXPECT_THAT(message([](json&) {}), HasSubstr("phantoms.json"));
  put_phantoms(0.76);
  put_file(scratch_.file("ideal_scores.csv"), "Image Index,Mass\n0.png\n");
  EXPECT_THAT(message([](json&) {}), HasSubstr("1 columns, not 2"));
}

}  // namespace
}  // namespace xoe::pages
