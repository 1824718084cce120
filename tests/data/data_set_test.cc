// Rendered data sets.
#include "data/synth/data_set.h"

#include <gtest/gtest.h>

#include "scratch.h"

namespace xoe::data {
namespace {

using test::read_file;
using test::Scratch;

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
