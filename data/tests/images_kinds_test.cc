// open_images(): what is delivered in which type and layout, and from which files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "core/base/float16.h"
#include "data/jpeg/jpeg.h"
#include "data/png/png.h"
#include "data/tests/rendered_images.h"

namespace xoe::data::test {
namespace {

using ::testing::HasSubstr;

float half_to_float(std::uint16_t bits) {
  Float16 half = 0;
  static_assert(sizeof(half) == sizeof(bits));
  std::memcpy(&half, &bits, sizeof(bits));
  return static_cast<float>(half);
}
float brain_to_float(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

// Element i of a batch's memory as a grey level of channel c.
double level_of(const ImageBatch& batch, std::size_t i, std::size_t c) {
  const ImagePipelineOptions defaults;
  const auto* words = static_cast<const std::uint16_t*>(batch.pixels.get());
  float value = 0;
  switch (batch.dtype) {
    case DType::kUint8: return static_cast<const std::uint8_t*>(batch.pixels.get())[i];
    case DType::kFloat16: value = half_to_float(words[i]); break;
    case DType::kBfloat16: value = brain_to_float(words[i]); break;
    default: value = batch.floats()[i]; break;
  }
  return 255.0 * (value * defaults.deviation[c] + defaults.mean[c]);
}

// Levels in the order of kNchw.
std::vector<double> levels_of(const ImagePipelineOptions& options) {
  const auto iterator = open_images(options).value();
  const ImageBatch batch = **iterator->next();
  EXPECT_EQ(batch.dtype, options.dtype);
  EXPECT_EQ(batch.layout, options.layout);
  const auto area = static_cast<std::size_t>(batch.height * batch.width);
  std::vector<double> levels;
  for (std::size_t image = 0; image < static_cast<std::size_t>(batch.count); ++image)
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t at = 0; at < area; ++at) {
        const std::size_t i = batch.layout == Layout::kNchw ? (3 * image + c) * area + at : (image * area + at) * 3 + c;
        levels.push_back(level_of(batch, i, c));
      }
  return levels;
}

double worst(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

TEST(ImageKinds, EveryTypeAndLayoutHoldsTheSameLevels) {
  const auto expected = levels_of(small());
  for (const Layout layout : {Layout::kNchw, Layout::kNhwc})
    for (const auto& [dtype, allowed] :
         {std::pair(DType::kFloat32, 1e-3), {DType::kFloat16, 0.1}, {DType::kBfloat16, 0.6}, {DType::kUint8, 0.51}}) {
      auto options = small();
      options.dtype = dtype;
      options.layout = layout;
      EXPECT_LE(worst(levels_of(options), expected), allowed) << dtype_name(dtype);
    }
  auto options = small();
  options.dtype = DType::kInt32;
  EXPECT_EQ(open_images(options).error().code(), Code::kInvalidArgument);
}

TEST(ImageKinds, FastDiffersLittle) {
  const auto exact = levels_of(small());
  auto options = small();
  options.quality = Quality::kFast;
  const auto fast = levels_of(options);
  double sum = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) sum += std::abs(exact[i] - fast[i]);
  EXPECT_GT(sum, 0) << "it is another way";
  EXPECT_LT(sum / static_cast<double>(exact.size()), 1.5);
}

TEST(ImageKinds, AugmentationsChangeTrainingTheSameWayAtEveryThread) {
  const auto plain = levels_of(small());
  std::vector<std::vector<double>> seen = {plain};
  for (int kind = 0; kind < 5; ++kind) {
    auto options = small();
    auto& augmentation = options.augmentation;
    if (kind == 0) augmentation.colour_jitter = {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1};
    if (kind == 1) augmentation.rand_augment = RandAugment{};
    if (kind == 2) augmentation.erasing = RandomErasing{.probability = 1};
    if (kind == 3) augmentation.mixing.mixup_alpha = 0.8;
    if (kind == 4) augmentation.mixing.cutmix_alpha = 1;
    const auto levels = levels_of(options);
    for (const auto& other : seen) EXPECT_NE(levels, other) << kind;
    seen.push_back(levels);
    options.threads = 3;
    EXPECT_EQ(levels_of(options), levels) << kind;
    options.training = false;
    EXPECT_EQ(levels_of(options), [] {
      auto evaluation = small();
      evaluation.training = false;
      return levels_of(evaluation);
    }()) << "evaluation is left alone";
  }
}

TEST(ImageKinds, MixedImagesHaveSharesOfClasses) {
  auto options = small();
  options.augmentation.mixing = {.mixup_alpha = 0.5, .cutmix_alpha = 0.5};
  const auto iterator = open_images(options).value();
  const ImageBatch batch = **iterator->next();
  ASSERT_EQ(batch.targets.size(), 4U * 5);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto row = batch.targets.begin() + static_cast<std::ptrdiff_t>(5 * i);
    EXPECT_NEAR(std::accumulate(row, row + 5, 0.F), 1, 1e-5);
  }
}

TEST(ImageKinds, AugmentationsThatCannotBeAreRefused) {
  const auto refused = [](auto change) {
    auto options = small();
    change(options);
    const auto opened = open_images(options);
    return !opened && opened.error().code() == Code::kInvalidArgument;
  };
  using Options = ImagePipelineOptions;
  EXPECT_TRUE(refused([](Options& o) { o.augmentation.colour_jitter = {.hue = 0.7}; }));
  EXPECT_TRUE(refused([](Options& o) { o.augmentation.rand_augment = {.magnitude = 31}; }));
  EXPECT_TRUE(refused([](Options& o) { o.augmentation.erasing = {.probability = 2}; }));
  EXPECT_TRUE(refused([](Options& o) { o.augmentation.mixing.mixup_alpha = -1; }));
  EXPECT_TRUE(refused([](Options& o) {
    o.augmentation.mixing.mixup_alpha = 1;
    o.dtype = DType::kUint8;
  }));
  EXPECT_TRUE(refused([](Options& o) {
    o.augmentation.erasing = RandomErasing{};
    o.dtype = DType::kFloat16;
  }));
}

std::string picture(int level, bool png) {
  Image image;
  image.resize(20, 15);
  for (int y = 0; y < 15; ++y) std::fill_n(image.row(y), 60, static_cast<std::uint8_t>(level));
  return png ? encode_png(image).value() : encode_jpeg(image).value();
}

class Folder {
 public:
  Folder() {
    for (int c = 0; c < 3; ++c) {
      std::filesystem::create_directories(scratch_.file("val/class" + std::to_string(c)));
      for (int i = 0; i < 4; ++i) put_file(path(c, i), picture(50 * c + 10 * i, i % 2 == 0));
    }
  }
  std::string path(int c, int i) const {
    return scratch_.file("val/class" + std::to_string(c) + "/" + std::to_string(i) + (i % 2 == 0 ? ".png" : ".jpg"));
  }
  ImagePipelineOptions options() const {
    auto options = small(scratch_.path());
    options.training = false;
    options.format = SourceFormat::kFolder;
    options.epochs = 1;
    return options;
  }

 private:
  Scratch scratch_;
};

TEST(ImageKinds, FoldersOfPngAndJpeg) {
  const Folder folder;
  auto options = folder.options();
  options.dtype = DType::kUint8;
  options.batch = 12;
  const auto iterator = open_images(options).value();
  EXPECT_EQ(iterator->classes(), 3);
  const ImageBatch batch = **iterator->next();
  EXPECT_EQ(batch.labels, (std::vector<std::int64_t>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
  for (std::size_t i = 0; i < 12; ++i)
    EXPECT_NEAR(level_of(batch, i * 3 * 16 * 16, 0),
                50. * static_cast<double>(i / 4) + 10. * static_cast<double>(i % 4), 2);
}

TEST(ImageKinds, AFileThatVanishesIsNamedOrSkipped) {
  const Folder folder;
  auto options = folder.options();
  const auto failing = open_images(options).value();
  options.on_error = OnError::kSkip;
  const auto skipping = open_images(options).value();
  std::filesystem::remove(folder.path(1, 2));
  put_file(folder.path(2, 1), "not a picture");
  auto batch = failing->next();
  while (batch && *batch) batch = failing->next();
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code(), Code::kUnavailable);
  EXPECT_THAT(batch.error().message(), HasSubstr(folder.path(1, 2)));
  EXPECT_EQ(images_of(drain(*skipping), 0).size(), 10U);
  EXPECT_EQ(skipping->skipped(), 2);
}

TEST(ImageKinds, WholeImagesKeepEveryPixel) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.file("train/one"));
  constexpr int kSide = 24;
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < kSide * kSide; ++i) pixels.push_back(static_cast<std::uint8_t>(i * 37));
  put_file(scratch.file("train/one/1.png"),
           encode_png({.width = kSide, .height = kSide, .colour = PngColour::kGrey, .samples = pixels}).value());
  ImagePipelineOptions options{.directory = scratch.path(),
                               .batch = 1,
                               .image_size = kSide,
                               .split = Split::kTrain,
                               .whole = true,
                               .flip = false,
                               .dtype = DType::kUint8};
  const auto delivered = [&](std::int64_t epoch) {
    const auto iterator = open_images(options).value();
    EXPECT_TRUE(iterator->start_epoch(epoch));
    const ImageBatch batch = **iterator->next();
    const auto* bytes = static_cast<const std::uint8_t*>(batch.pixels.get());
    return std::vector<std::uint8_t>(bytes, bytes + kSide * kSide);
  };
  std::vector<std::uint8_t> mirrored = pixels;
  for (int y = 0; y < kSide; ++y)
    std::reverse(mirrored.begin() + y * kSide, mirrored.begin() + (std::ptrdiff_t{y} + 1) * kSide);
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) EXPECT_EQ(delivered(epoch), pixels);
  options.training = false;
  EXPECT_EQ(delivered(0), pixels);
  options.flip = true;  // of training images alone
  EXPECT_EQ(delivered(0), pixels);
  options.training = true;
  int flipped = 0;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const auto found = delivered(epoch);
    EXPECT_TRUE(found == pixels || found == mirrored);
    flipped += found == mirrored ? 1 : 0;
  }
  EXPECT_GT(flipped, 2);
  EXPECT_LT(flipped, 18);
}

TEST(ImageKinds, ChestXraysHaveSeveralClasses) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.file("images"));
  std::string table = "Image Index,Finding Labels,Follow-up #,Patient ID\n";
  const std::vector<std::string> findings = {"No Finding", "Cardiomegaly", "Cardiomegaly|Effusion", "Hernia"};
  std::string listed;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const std::string name = "0000000" + std::to_string(i) + "_000.png";
    put_file(scratch.file("images/" + name), picture(60, true));
    table += name + "," + findings[i] + ",0,1\n";
    listed += name + "\n";
  }
  put_file(scratch.file("Data_Entry_2017.csv"), table);
  put_file(scratch.file("train_val_list.txt"), listed);
  auto options = small(scratch.path());
  options.shuffle_buffer = 0;
  const auto iterator = open_images(options).value();
  EXPECT_TRUE(iterator->multi_label());
  EXPECT_EQ(iterator->classes(), 14);
  const ImageBatch batch = **iterator->next();
  EXPECT_TRUE(batch.labels.empty());
  ASSERT_EQ(batch.targets.size(), 4U * 14);
  std::vector<float> found;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto row = batch.targets.begin() + static_cast<std::ptrdiff_t>(14 * i);
    found.push_back(std::accumulate(row, row + 14, 0.F));
  }
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (std::vector<float>{0, 1, 1, 2}));
}

}  // namespace
}  // namespace xoe::data::test
