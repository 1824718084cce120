// Rendered data sets.
#include "data/cli/synth/data_set.h"

#include <gtest/gtest.h>

#include "core/testing/scratch.h"
#include "data/jpeg/jpeg.h"
#include "data/records/example.h"
#include "data/tests/record_extents.h"

namespace xoe::data {
namespace {

TEST(DataSet, BytesDependOnTheSeedAlone) {
  const auto make = [](std::uint64_t seed, int threads) {
    const Scratch scratch;
    const synth::DataSetOptions options{.directory = scratch.file("new/deep"),
                                        .images = 20,
                                        .validation = 3,
                                        .classes = 4,
                                        .shards = 2,
                                        .seed = seed,
                                        .size_min = 24,
                                        .size_max = 40,
                                        .threads = threads};
    EXPECT_TRUE(synth::make_data_set(options, [](std::int64_t, std::int64_t) { return true; }));
    std::string all;
    for (const auto* name : {"train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001", "labels.txt"})
      all += read_file(options.directory + "/" + name);
    return all;
  };
  const std::string expected = make(1, 1);
  EXPECT_EQ(make(1, 4), expected);
  EXPECT_NE(make(2, 1), expected);
}

TEST(DataSet, PicturesOfOneSizePlain) {
  const Scratch scratch;
  synth::DataSetOptions options{.directory = scratch.file("set"),
                                .images = 40,
                                .validation = 0,
                                .shards = 1,
                                .width = 50,
                                .height = 30,
                                .film = {.grain_min = 0.02, .grain_max = 0.02, .detail = 1},
                                .plain = true};
  const auto go_on = [](std::int64_t, std::int64_t) { return true; };
  ASSERT_TRUE(synth::make_data_set(options, go_on));
  const std::string path = options.directory + "/train-00000-of-00001";
  const RecordFile file(open_file(path));
  JpegDecoder decoder;
  Image image;
  std::string buffer;
  std::int64_t number = 0;
  for (const RecordExtent& place : extents_of(path)) {
    const auto record = parse_image_example(file.read(place, number++, buffer).value()).value();
    // Baseline: its frame begins with FF C0.
    EXPECT_NE(record.encoded.find("\xff\xc0"), std::string_view::npos);
    ASSERT_TRUE(decoder.decode(record.encoded, image));
    EXPECT_EQ(image.width(), 50);
    EXPECT_EQ(image.height(), 30);
  }
  EXPECT_EQ(number, 40);

  options.overwrite = true;
  options.height = 0;
  EXPECT_FALSE(synth::make_data_set(options, go_on));
}

TEST(DataSet, StoppedRunLeavesNothing) {
  const Scratch scratch;
  const synth::DataSetOptions options{.directory = scratch.file("new"),
                                      .images = 20,
                                      .validation = 3,
                                      .classes = 4,
                                      .shards = 2,
                                      .size_min = 24,
                                      .size_max = 40};
  EXPECT_FALSE(synth::make_data_set(options, [](std::int64_t done, std::int64_t) { return done < 15; }));
  EXPECT_FALSE(std::filesystem::exists(options.directory));
}

}  // namespace
}  // namespace xoe::data
