// The two ways of reading images, and the program that compares them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/testing/places.h"
#include "core/testing/scratch.h"
#include "data/cli/synth/data_set.h"
#include "examples/input_pipelines.h"

namespace xoe::examples {
namespace {

using ::testing::HasSubstr;

constexpr int kImages = 48;

// Pictures whose labels differ, in 4 files.
std::string make_set(const Scratch& scratch) {
  data::synth::DataSetOptions options;
  options.directory = scratch.file("set");
  options.images = kImages;
  options.validation = 0;
  options.classes = kImages;
  options.size_min = 32;
  options.size_max = 48;
  EXPECT_TRUE(data::synth::make_data_set(options, [](std::int64_t, std::int64_t) { return true; }));
  return options.directory;
}

// The labels of one epoch, and whether all pixels are numbers that normalised images have.
std::vector<std::int64_t> read(Result<NextImages> next, const WayOptions& options) {
  std::vector<std::int64_t> labels;
  while (next) {
    auto images = (*next)();
    EXPECT_TRUE(images) << images.error().message();
    if (!images || !*images) break;
    const Images& batch = **images;
    EXPECT_EQ(batch.labels.size(), static_cast<std::size_t>(batch.count));
    labels.insert(labels.end(), batch.labels.begin(), batch.labels.end());
    const auto pixels = static_cast<std::ptrdiff_t>(3 * batch.count * options.image_size.pixels());
    EXPECT_TRUE(std::all_of(batch.pixels.get(), batch.pixels.get() + pixels, [](float x) { return x > -3 && x < 3; }));
  }
  return labels;
}

using Pipeline = Result<NextImages> (*)(const WayOptions&);

class Pipelines : public ::testing::TestWithParam<Pipeline> {};

TEST_P(Pipelines, RanksTogetherSeeEachImageOnce) {
  const Scratch scratch;
  const std::string directory = make_set(scratch);
  for (const int size : {1, 2, 4}) {
    std::vector<int> seen(kImages);
    for (int rank = 0; rank < size; ++rank) {
      const WayOptions options{
          .directory = directory, .rank = rank, .size = size, .batch = 5, .image_size = 24, .shuffle = 16, .epochs = 1};
      for (const std::int64_t label : read(GetParam()(options), options)) ++seen.at(static_cast<std::size_t>(label));
    }
    EXPECT_THAT(seen, ::testing::Each(1)) << size << " ranks";
  }
}

TEST_P(Pipelines, AMissingDirectoryIsAnError) {
  const auto next = GetParam()({.directory = "/nowhere"});
  ASSERT_FALSE(next);
  EXPECT_THAT(next.error().message(), HasSubstr("/nowhere"));
}

INSTANTIATE_TEST_SUITE_P(Both, Pipelines, ::testing::Values(&old_way, &new_way),
                         [](const auto& way) { return way.index == 0 ? "Old" : "New"; });

// The JSON that `xoe-data ARGUMENTS --json` prints; null when it fails.
nlohmann::json run(const Scratch& scratch, const std::string& arguments) {
  const std::string out = scratch.file("out.json");
  if (std::system((built_command("xoe-data ") + arguments + " --json > " + out).c_str()) != 0) return {};
  return nlohmann::json::parse(std::ifstream(out));
}

TEST(Bench, MeasuresAndEmulatesAConsumer) {
  const Scratch scratch;
  const std::string common = "bench " + make_set(scratch) + " --batch 4 --seconds 0.1 --warmup 0.05 ";
  const auto report = run(scratch, common + "--image-size 32 --threads 2 --consumer 40");
  ASSERT_TRUE(report.is_object());
  EXPECT_GE(report["images"], 4);
  for (const char* figure : {"images_per_s", "cpu_ms_per_image", "peak_bytes", "first_batch_s"})
    EXPECT_GT(report[figure], 0) << figure;
  // A batch of 4 each 100 ms: it cannot get more, and hardly waits.
  EXPECT_LE(report["emulated_consumer"]["fed_images_per_s"], 41);
  EXPECT_EQ(report["emulated_consumer"]["threads_missing"], 0);
  EXPECT_TRUE(run(scratch, common + "--mode unheard-of").is_null());
  EXPECT_TRUE(run(scratch, common + "--image-size 24x40 --interpolation bicubic --no-antialias").is_object());
  EXPECT_TRUE(run(scratch, common + "--image-size 32 --interpolation area --exif-orientation").is_object());
  for (const char* wrong : {"--image-size 24x", "--interpolation nearest", "--interpolation area --no-antialias",
                            "--max-pixels 0", "--max-pixels 100"})
    EXPECT_TRUE(run(scratch, common + wrong).is_null()) << wrong;
}

TEST(Compare, RunsBothWaysAndDraws) {
  const Scratch scratch;
  const std::string plot = scratch.file("plot.svg");
  const auto report =
      run(scratch, "compare " + make_set(scratch) + " --ranks 1,2 --step-ms 5 --batch 4 --image-size 32" +
                       " --seconds 0.1 --warmup 0.1 --plot " + plot);
  ASSERT_EQ(report["figures"].size(), 4U);
  for (const auto& one : report["figures"]) {
    EXPECT_GT(one["images_per_s"], 0);
    EXPECT_GE(one["idle_share"], 0);
    EXPECT_EQ(one["wanted_images_per_s"], one["ranks"].get<int>() * 4 / 0.005);
  }
  std::string svg;
  std::getline(std::ifstream(plot), svg, '\0');
  EXPECT_THAT(svg, HasSubstr("<svg"));
  EXPECT_THAT(svg, HasSubstr("2 ranks"));
}

}  // namespace
}  // namespace xoe::examples
