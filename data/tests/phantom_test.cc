// Phantoms: their noise, their ideal observer, and the files.
#include "data/cli/phantom/phantom_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/testing/scratch.h"
#include "data/cli/phantom/field.h"
#include "data/cli/phantom/lesion.h"
#include "data/cli/phantom/observer.h"
#include "data/image/augment/plan.h"
#include "data/stages/random.h"
#include "data/tests/run_data.h"
#include "xoe/data/images.h"

namespace xoe::data::synth {
namespace {

using testing::HasSubstr;

bool go_on(std::int64_t, std::int64_t) { return true; }

std::vector<double> white_noise(Random& random, int size) {
  std::vector<double> image(static_cast<std::size_t>(size * size));
  for (double& pixel : image) pixel = draw_normal(random);
  return image;
}

TEST(PhantomField, WhiteningUndoesColouring) {
  Random random(1);
  const std::vector<double> white = white_noise(random, 32);
  std::vector<double> image = white;
  colour(image, 32);
  whiten(image, 32);
  for (std::size_t i = 0; i < white.size(); ++i) EXPECT_NEAR(image[i], white[i], 1e-12);
}

TEST(PhantomField, NoiseIsStationaryAndCorrelatesAsItSays) {
  constexpr int kImages = 20000;
  constexpr int kSide = 4;
  Random random(2);
  double corner = 0;
  double last = 0;
  double neighbours = 0;
  for (int i = 0; i < kImages; ++i) {
    std::vector<double> image = white_noise(random, kSide);
    colour(image, kSide);
    corner += image.front() * image.front() / kImages;
    last += image.back() * image.back() / kImages;
    neighbours += image.back() * image[image.size() - 2] / kImages;
  }
  const double variance = kColouredDeviation * kColouredDeviation;
  const double tolerance = 5 * variance * std::sqrt(2.0 / kImages);
  EXPECT_NEAR(corner, variance, tolerance);
  EXPECT_NEAR(last, variance, tolerance);
  EXPECT_NEAR(neighbours, kCorrelation * variance, tolerance);
}

TEST(PhantomLesion, OtherFindingsChangeNothingInWhatTellsOfOne) {
  for (const int size : {32, 96}) {
    Random random(3);
    std::vector<double> image = white_noise(random, size);
    colour(image, size);
    for (const LesionKind& kind : lesion_kinds()) {
      const IdealObserver observer(kind, size);
      std::vector<double> alone = image;
      std::vector<double> crowded = image;
      for (const LesionKind& other : lesion_kinds())
        for (int place = 0; place < kPlaces * kPlaces; ++place)
          if (other.finding != kind.finding) add_lesion(other, place, 5, crowded, size);
      whiten(alone, size);
      whiten(crowded, size);
      EXPECT_NEAR(observer.score(crowded, 1.5), observer.score(alone, 1.5), 1e-9) << kind.finding;
    }
  }
}

// The likelihood ratio written out over whole images.
double written_out(const std::vector<double>& white, const LesionKind& kind, double contrast, int size) {
  double ratio = 0;
  for (int place = 0; place < kPlaces * kPlaces; ++place)
    for (const double strength : kStrengths) {
      std::vector<double> lesion(white.size());
      add_lesion(kind, place, contrast * strength, lesion, size);
      whiten(lesion, size);
      double log = 0;  // of the densities of (white - lesion) and (white)
      for (std::size_t i = 0; i < white.size(); ++i)
        log += (white[i] * white[i] - (white[i] - lesion[i]) * (white[i] - lesion[i])) / 2;
      ratio += std::exp(log) / (kPlaces * kPlaces * static_cast<double>(kStrengths.size()));
    }
  return std::log(ratio);
}

TEST(IdealObserver, EqualsTheLikelihoodRatioWrittenOut) {
  Random random(4);
  const std::vector<double> white = white_noise(random, 32);
  for (const LesionKind& kind : lesion_kinds())
    EXPECT_NEAR(IdealObserver(kind, 32).score(white, 1.2), written_out(white, kind, 1.2, 32), 1e-9) << kind.finding;
}

// The Monte Carlo draws 16 products; here are whole images, in the corner and in the middle.
TEST(IdealObserver, MonteCarloIsThatOfImages) {
  constexpr int kSize = 32;
  constexpr int kImages = 6000;
  for (const int k : {6, 13}) {
    const LesionKind& kind = lesion_kinds()[static_cast<std::size_t>(k)];
    const IdealObserver observer(kind, kSize);
    const double contrast = observer.contrast_for(kind.difficulty, 4000, 7);
    const stats::Auroc ideal = observer.monte_carlo(contrast, 40000, 8);
    EXPECT_NEAR(ideal.value, kind.difficulty, 0.02);
    Random random(9);
    std::vector<double> scores;
    std::vector<std::uint8_t> positive;
    for (int i = 0; i < kImages; ++i) {
      std::vector<double> image = white_noise(random, kSize);
      colour(image, kSize);
      const double strength = kStrengths[static_cast<std::size_t>(random.integer(0, 3))];
      positive.push_back(i % 2 == 0 ? 1 : 0);
      if (i % 2 == 0) add_lesion(kind, random.integer(0, 15), contrast * strength, image, kSize);
      whiten(image, kSize);
      scores.push_back(observer.score(image, contrast));
    }
    const stats::Auroc found = stats::auroc(scores, positive).value();
    EXPECT_NEAR(found.value, ideal.value, 4 * std::sqrt(found.variance + ideal.variance)) << kind.finding;
  }
}

TEST(IdealObserver, WrongLabelsLowerItAsTheClosedFormSays) {
  constexpr int kImages = 40000;
  constexpr double kPrevalence = 0.2;
  constexpr double kWrong = 0.3;
  Random random(10);
  std::vector<double> scores;
  std::vector<std::uint8_t> positive;
  std::vector<std::uint8_t> recorded;
  for (int i = 0; i < kImages; ++i) {
    const bool present = random.chance(kPrevalence);
    const bool wrong = random.chance(present ? kWrong : kWrong * kPrevalence / (1 - kPrevalence));
    scores.push_back(draw_normal(random) + (present ? 1.5 : 0));
    positive.push_back(present ? 1 : 0);
    recorded.push_back(present != wrong ? 1 : 0);
  }
  const double clean = stats::auroc(scores, positive)->value;
  const stats::Auroc found = stats::auroc(scores, recorded).value();
  EXPECT_NEAR(found.value, auroc_with_wrong_labels(clean, kWrong, kPrevalence), 4 * found.deviation());
  EXPECT_EQ(auroc_with_wrong_labels(0.8, 0, 0.1), 0.8);
  EXPECT_NEAR(auroc_with_wrong_labels(0.8, 0.5, 0.5), 0.5, 1e-12);  // labels that say nothing
}

PhantomSetOptions small_set(const std::string& directory) {
  PhantomSetOptions options;
  options.directory = directory;
  options.images = 70;
  options.test = 20;
  options.size = 32;
  options.samples = 1000;
  options.seed = 1;
  options.threads = 1;
  return options;
}

std::string all_bytes(const PhantomSetOptions& options) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(options.directory))
    if (entry.is_regular_file()) paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  std::string all;
  for (const std::string& path : paths) all += path.substr(options.directory.size()) + read_file(path);
  return all;
}

TEST(PhantomSet, BytesDependOnTheSeedAlone) {
  const Scratch scratch;
  PhantomSetOptions options = small_set(scratch.file("one"));
  ASSERT_TRUE(make_phantom_set(options, go_on));
  const std::string expected = all_bytes(options);
  options.directory = scratch.file("threads");
  options.threads = 3;
  ASSERT_TRUE(make_phantom_set(options, go_on));
  EXPECT_EQ(all_bytes(options), expected);
  options.directory = scratch.file("seed");
  options.seed = 2;
  ASSERT_TRUE(make_phantom_set(options, go_on));
  EXPECT_NE(all_bytes(options), expected);
}

TEST(PhantomSet, IsADataSetOfThePipeline) {
  const Scratch scratch;
  const PhantomSetOptions options = small_set(scratch.file("set"));
  const auto report = make_phantom_set(options, go_on);
  ASSERT_TRUE(report) << report.error().message();
  for (const bool training : {true, false}) {
    const auto images =
        open_images({.directory = options.directory, .batch = 10, .image_size = 32, .training = training});
    ASSERT_TRUE(images) << images.error().message();
    EXPECT_EQ((*images)->records_per_epoch(), training ? 70 : 20);
    EXPECT_TRUE((*images)->multi_label());
  }
  const auto description = nlohmann::json::parse(read_file(options.directory + "/phantoms.json"));
  EXPECT_THAT(description["what"].get<std::string>(), HasSubstr("nothing medical"));
  ASSERT_EQ(description["labels"].size(), 14U);
  for (std::size_t k = 0; k < 14; ++k) {
    EXPECT_EQ(description["labels"][k]["label"], report->labels[k].finding);
    EXPECT_NEAR(report->labels[k].ideal_auroc, lesion_kinds()[k].difficulty, 0.1);
    EXPECT_GT(report->labels[k].monte_carlo_error, 0);
  }
}

TEST(PhantomSet, RefusesSenselessOptions) {
  const Scratch scratch;
  const auto message = [&](const std::function<void(PhantomSetOptions&)>& change) {
    PhantomSetOptions options = small_set(scratch.file("never"));
    change(options);
    const auto made = make_phantom_set(options, go_on);
    EXPECT_FALSE(made);
    EXPECT_FALSE(std::filesystem::exists(options.directory));
    return made ? std::string() : made.error().message();
  };
  EXPECT_THAT(message([](auto& o) { o.size = 48; }), HasSubstr("multiple of 32"));
  EXPECT_THAT(message([](auto& o) { o.size = 2048; }), HasSubstr("2048"));
  EXPECT_THAT(message([](auto& o) { o.images = 0; }), HasSubstr("images must be"));
  EXPECT_THAT(message([](auto& o) { o.wrong_labels = 0.6; }), HasSubstr("0.6"));
  EXPECT_THAT(message([](auto& o) { o.wrong_labels = std::nan(""); }), HasSubstr("wrong labels"));
  EXPECT_THAT(message([](auto& o) { o.samples = 10; }), HasSubstr("samples"));
}

TEST(MakeXray, TellsWhatCanBeReached) {
  const Scratch scratch;
  const std::vector<std::string> arguments = {"make-xray", "--images", "20", "--size", "32", "--samples", "1000"};
  auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), more);
    return run(all);
  };
  const Ended text = with({scratch.file("text")});
  EXPECT_EQ(text.code, 0) << text.error;
  EXPECT_THAT(text.out, HasSubstr("20 training and 6 test images"));
  EXPECT_THAT(text.out, HasSubstr("phantoms: nothing medical follows"));
  const Ended json = with({"--json", "--test", "0", scratch.file("json")});
  EXPECT_EQ(json.code, 0) << json.error;
  EXPECT_EQ(nlohmann::json::parse(json.out)["labels"].size(), 14U);
  EXPECT_FALSE(std::filesystem::exists(scratch.file("json/test_list.txt")));
  const Ended again = with({scratch.file("text")});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.error, HasSubstr("text"));
}

}  // namespace
}  // namespace xoe::data::synth
