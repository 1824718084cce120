// Augmentations against what Pillow and torchvision made of the same images (reference/augment.json), and what is drawn
// against its distribution.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/testing/places.h"
#include "data/image/augment/apply.h"
#include "data/image/augment/batch.h"
#include "data/image/push.h"

namespace xoe::data {
namespace {

using nlohmann::json;

const json& reference() {
  static const json loaded = json::parse(std::ifstream(source_file("data/tests/reference/augment.json")));
  return loaded;
}

std::vector<std::uint8_t> bytes_of(const std::string& hex) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

Image image_of(const json& stored) {
  Image image;
  image.resize(stored["width"], stored["height"]);
  const auto bytes = bytes_of(stored["pixels"]);
  std::copy(bytes.begin(), bytes.end(), image.row(0));
  return image;
}

TEST(PixelChange, EqualsPillowToTheLevel) {
  Image scratch;
  for (const json& stored : reference()["cases"]) {
    Image image = image_of(reference()["images"][stored["image"].get<std::size_t>()]);
    const PixelChange change{static_cast<PixelOp>(stored["op"].get<int>()), stored["amount"]};
    apply(std::span(&change, 1), image, scratch);
    const auto expected = bytes_of(stored["pixels"]);
    ASSERT_EQ(expected.size(), image.stride() * static_cast<std::size_t>(image.height()));
    const std::vector<std::uint8_t> found(image.row(0), image.row(0) + expected.size());
    EXPECT_EQ(found, expected) << "operation " << stored["op"] << " by " << stored["amount"];
  }
}

TEST(PixelChange, TinyImagesSurvive) {
  Image scratch;
  for (const auto& [width, height] : {std::pair{1, 1}, {2, 1}, {1, 3}, {3, 3}})
    for (int op = 0; op <= static_cast<int>(PixelOp::kHue); ++op) {
      Image image;
      image.resize(width, height);
      std::fill_n(image.row(0), image.stride() * static_cast<std::size_t>(height), std::uint8_t{77});
      const PixelChange change{static_cast<PixelOp>(op), 0.4};
      apply(std::span(&change, 1), image, scratch);
      EXPECT_EQ(image.width(), width);
      EXPECT_EQ(image.height(), height);
    }
}

TEST(RandAugment, MagnitudesAreTorchvisions) {
  for (const json& table : reference()["magnitudes"])
    for (const auto& [op, amounts] : table["amounts"].items())
      for (int bin = 0; bin < table["bins"]; ++bin) {
        const RandAugment options{2, bin, table["bins"]};
        const double amount =
            rand_augment_amount(static_cast<PixelOp>(std::stoi(op)), options, table["width"], table["height"]);
        EXPECT_NEAR(amount, amounts[static_cast<std::size_t>(bin)].get<double>(), 3e-5) << op << " " << bin;
      }
}

TEST(RandAugment, DrawsEachOperationAndBothSigns) {
  std::map<PixelOp, int> drawn;
  int negative = 0;
  int signed_ones = 0;
  for (std::uint64_t record = 0; record < 7000; ++record) {
    Random random(1, 2, record);
    const auto changes = draw_rand_augment(random, {}, 500, 375);
    ASSERT_EQ(changes.size(), 2U);
    for (const PixelChange& change : changes) {
      ++drawn[change.op];
      if (change.op < PixelOp::kShearX || change.op > PixelOp::kRotate) continue;
      ++signed_ones;
      negative += change.amount < 0 ? 1 : 0;
    }
    Random again(1, 2, record);
    EXPECT_EQ(draw_rand_augment(again, {}, 500, 375)[1].amount, changes[1].amount);
  }
  EXPECT_EQ(drawn.size(), static_cast<std::size_t>(kRandAugmentOps));
  for (const auto& [op, count] : drawn) EXPECT_NEAR(count, 1000, 150) << static_cast<int>(op);
  EXPECT_NEAR(static_cast<double>(negative) / signed_ones, 0.5, 0.05);
}

TEST(ColourJitter, DrawsAllOrdersWithinTheRanges) {
  std::map<std::vector<int>, int> orders;
  for (std::uint64_t record = 0; record < 4800; ++record) {
    Random random(1, 2, record);
    std::vector<int> order;
    for (const PixelChange& change : draw_colour_jitter(random, {0.4, 1.5, 0.2, 0.1})) {
      order.push_back(static_cast<int>(change.op));
      const double range = change.op == PixelOp::kBrightness   ? 0.4
                           : change.op == PixelOp::kContrast   ? 1.5
                           : change.op == PixelOp::kSaturation ? 0.2
                                                               : 0.1;
      const double centre = change.op == PixelOp::kHue ? 0 : 1;
      EXPECT_GE(change.amount, std::max(centre - range, change.op == PixelOp::kHue ? -0.5 : 0.0));
      EXPECT_LE(change.amount, centre + range);
    }
    ++orders[order];
  }
  EXPECT_EQ(orders.size(), 24U);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 200, 80);
  Random random(1);
  EXPECT_TRUE(draw_colour_jitter(random, {}).empty());
  EXPECT_EQ(draw_colour_jitter(random, {.hue = 0.5}).size(), 1U);
}

TEST(Changes, AreJitterThenRandAugment) {
  const Augmentation options{.colour_jitter = ColourJitter{.hue = 0.5}, .rand_augment = RandAugment{3, 9, 31}};
  Random random(4);
  const auto changes = draw_changes(random, options, 50, 50);
  ASSERT_EQ(changes.size(), 4U);
  EXPECT_EQ(changes[0].op, PixelOp::kHue);
  EXPECT_TRUE(draw_changes(random, {}, 50, 50).empty());
}

// How a worker puts the parts together: crop to 8 bits, change, then normalise.
TEST(Changes, FitBetweenCropAndNormalisation) {
  Image image = image_of(reference()["images"][0]);
  Image cropped;
  Image scratch;
  Resizer resizer;
  const Crop crop = crop_then_resize({3, 2, 16, 14});
  cropped.resize(12, 10);
  resizer.prepare(crop,
                  {.to = cropped.row(0), .dtype = DType::kUint8, .layout = Layout::kNhwc, .width = 12, .height = 10});
  push_image(image, needed_pixels(crop), resizer);
  ASSERT_TRUE(resizer.complete());
  const PixelChange darker{PixelOp::kBrightness, 0.5};
  apply(std::span(&darker, 1), cropped, scratch);
  std::vector<float> network(3 * 10 * 12);
  const Crop whole = crop_then_resize({0, 0, 12, 10});
  resizer.prepare(whole, {.to = network.data(), .width = 12, .height = 10});
  push_image(cropped, needed_pixels(whole), resizer);
  ASSERT_TRUE(resizer.complete());
  for (std::size_t c = 0; c < 3; ++c)
    for (int y = 0; y < 10; ++y)
      for (int x = 0; x < 12; ++x)
        EXPECT_NEAR(
            (network[(c * 10 + static_cast<std::size_t>(y)) * 12 + static_cast<std::size_t>(x)] * kDeviation[c] +
             kMean[c]) *
                255,
            cropped.row(y)[3 * x + static_cast<int>(c)], 1e-3);
}

// The same floats in the order of pixels.
std::vector<float> by_pixel(const std::vector<float>& planes, int channels, int area) {
  std::vector<float> pixels(planes.size());
  for (std::size_t i = 0; i < planes.size(); ++i) {
    const auto image = i / static_cast<std::size_t>(channels * area);
    const auto c = i / static_cast<std::size_t>(area) % static_cast<std::size_t>(channels);
    const auto at = i % static_cast<std::size_t>(area);
    pixels[(image * static_cast<std::size_t>(area) + at) * static_cast<std::size_t>(channels) + c] = planes[i];
  }
  return pixels;
}

PixelRect box_of(const json& stored) { return {stored[0], stored[1], stored[2], stored[3]}; }

TEST(Mixing, EqualsTorchvision) {
  const json& stored = reference()["mixing"];
  const auto images = stored["images"].get<std::vector<float>>();
  std::vector<float> scratch;
  for (const json& example : stored["cases"])
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      auto mixed = layout == Layout::kNchw ? images : by_pixel(images, 2, 35);
      auto labels = stored["labels"].get<std::vector<float>>();
      MixingPlan plan = MixupPlan{example["share"]};
      if (example["kind"] == "cutmix") plan = CutmixPlan{box_of(example["box"]), example["share"]};
      apply(plan, {mixed.data(), 3, 2, 5, 7, layout}, {labels.data(), 4}, scratch);
      const auto expected = example["images"].get<std::vector<float>>();
      EXPECT_EQ(mixed, layout == Layout::kNchw ? expected : by_pixel(expected, 2, 35)) << example["kind"];
      EXPECT_EQ(labels, example["labels"].get<std::vector<float>>());
    }
}

TEST(Mixing, DrawsWhatIsAsked) {
  int cut = 0;
  for (std::uint64_t batch = 0; batch < 2000; ++batch) {
    Random random(1, 2, batch);
    const MixingPlan plan = draw_mixing(random, {0.2, 1.0, 0.25}, 30, 20);
    if (const auto* cutmix = std::get_if<CutmixPlan>(&plan)) {
      ++cut;
      EXPECT_GE(cutmix->box.x, 0);
      EXPECT_GE(cutmix->box.width, 0);
      EXPECT_LE(cutmix->box.right(), 30);
      EXPECT_LE(cutmix->box.bottom(), 20);
      EXPECT_NEAR(cutmix->share, 1 - cutmix->box.width * cutmix->box.height / 600.0, 1e-12);
    } else {
      const double share = std::get<MixupPlan>(plan).share;
      EXPECT_GE(share, 0);
      EXPECT_LE(share, 1);
    }
  }
  EXPECT_NEAR(cut, 500, 80);
  Random random(1);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(draw_mixing(random, {}, 30, 20)));
}

TEST(Beta, HasItsMoments) {
  for (const double alpha : {0.1, 0.4, 1.0, 3.0}) {
    Random random(8);
    constexpr int kDraws = 20000;
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double share = draw_beta(random, alpha);
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    EXPECT_NEAR(sum / kDraws, 0.5, 0.015) << alpha;
    EXPECT_NEAR(squares / kDraws, 1 / (4 * (2 * alpha + 1)), 0.006) << alpha;
  }
}

TEST(Erasing, EqualsTorchvision) {
  const json& stored = reference()["erasing"];
  const auto image = stored["image"].get<std::vector<float>>();
  for (const json& example : stored["cases"])
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      auto erased = layout == Layout::kNchw ? image : by_pixel(image, 2, 35);
      apply(ErasingPlan{box_of(example["box"]), false, example["value"], 0}, {erased.data(), 1, 2, 5, 7, layout});
      const auto expected = example["image"].get<std::vector<float>>();
      EXPECT_EQ(erased, layout == Layout::kNchw ? expected : by_pixel(expected, 2, 35));
    }
}

TEST(Erasing, DrawsAreaRatioAndPlace) {
  int erased = 0;
  for (std::uint64_t record = 0; record < 3000; ++record) {
    Random random(1, 2, record);
    const auto plan = draw_erasing(random, {.probability = 0.3}, 224, 200);
    if (!plan) continue;
    ++erased;
    EXPECT_GE(plan->box.x, 0);
    EXPECT_GE(plan->box.y, 0);
    EXPECT_LE(plan->box.right(), 224);
    EXPECT_LE(plan->box.bottom(), 200);
    const double area = plan->box.width * plan->box.height / (224.0 * 200);
    EXPECT_GT(area, 0.018);
    EXPECT_LT(area, 0.34);
  }
  EXPECT_NEAR(erased, 900, 100);
}

TEST(Erasing, NoiseIsNormalAndTheSameAgain) {
  std::vector<float> image(3 * 100 * 100, 7);
  const ErasingPlan plan{{10, 20, 80, 60}, true, 0, 99};
  apply(plan, {image.data(), 1, 3, 100, 100});
  double sum = 0;
  double squares = 0;
  int changed = 0;
  for (const float value : image) {
    if (value == 7) continue;
    ++changed;
    sum += value;
    squares += value * value;
  }
  EXPECT_EQ(changed, 3 * 80 * 60);
  EXPECT_NEAR(sum / changed, 0, 0.03);
  EXPECT_NEAR(squares / changed, 1, 0.05);
  std::vector<float> again(3 * 100 * 100, 7);
  apply(plan, {again.data(), 1, 3, 100, 100});
  EXPECT_EQ(image, again);
}

TEST(Check, NamesTheFieldOutOfRange) {
  EXPECT_TRUE(check(Augmentation{}));
  Augmentation wrong;
  wrong.colour_jitter = ColourJitter{.hue = 0.6};
  EXPECT_THAT(check(wrong).error().message(), ::testing::HasSubstr("colour_jitter.hue is 0.6"));
  wrong = {};
  wrong.rand_augment = RandAugment{2, 31, 31};
  EXPECT_EQ(check(wrong).error().code(), Code::kInvalidArgument);
  wrong = {};
  wrong.erasing = RandomErasing{.area = {0.5, 0.2}};
  EXPECT_FALSE(check(wrong));
  wrong = {};
  wrong.mixing.mixup_alpha = std::nan("");
  EXPECT_FALSE(check(wrong));
}

}  // namespace
}  // namespace xoe::data
