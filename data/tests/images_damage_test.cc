// open_images() with broken records, missing files and wrong options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/tests/rendered_images.h"

namespace xoe::data::test {
namespace {

using ::testing::HasSubstr;

TEST(Images, BadRecordFailsByNameAndStaysFailed) {
  const Damaged damaged({5});
  for (const int threads : {0, 3}) {
    auto options = small(damaged.directory());
    options.threads = threads;
    const auto iterator = open_images(options).value();
    auto batch = iterator->next();
    while (batch && *batch) batch = iterator->next();
    ASSERT_FALSE(batch);
    EXPECT_EQ(batch.error().code(), Code::kDataLoss);
    EXPECT_THAT(batch.error().message(), HasSubstr(damaged.name(5)));
    EXPECT_EQ(iterator->next().error().message(), batch.error().message());
  }
}

TEST(Images, BadRecordsAreSkippedCountedAndReplaced) {
  const Damaged damaged({1, 5});
  auto options = small(damaged.directory());
  options.on_error = OnError::kSkip;
  options.remainder = Remainder::kPad;
  const auto one = open_images(options).value();
  const auto expected = drain(*one);
  EXPECT_GE(one->skipped(), 2 * 2) << "two in each epoch,";
  EXPECT_LE(one->skipped(), 2 * (2 + 2)) << "and again where padding reaches them";
  for (const Made& made : expected) EXPECT_EQ(made.labels.size(), 4U);
  options.threads = 3;
  EXPECT_EQ(drain(options), expected);
}

TEST(Images, BadRecordsShrinkEvaluation) {
  const Damaged damaged({0, 1, 2, 3, 9});
  auto options = small(damaged.directory());
  options.on_error = OnError::kSkip;
  options.training = false;
  options.pattern = "train-*";
  options.threads = 2;
  options.epochs = 1;
  const auto iterator = open_images(options).value();
  const auto batches = drain(*iterator);
  EXPECT_EQ(batches.size(), static_cast<std::size_t>(iterator->batches_per_epoch()));
  EXPECT_TRUE(batches[0].labels.empty());
  EXPECT_EQ(batches[2].labels, (std::vector<std::int64_t>{3, 0, 1}));
  EXPECT_EQ(iterator->skipped(), 5);
}

TEST(Images, RecordsLostToTheFramingAreCounted) {
  const Damaged damaged({});
  for (const auto* name : {"/train-00000-of-00003", "/train-00001-of-00003"}) {
    const std::string path = damaged.directory() + name;
    const auto places = extents_of(path);
    std::string bytes = read_file(path);
    bytes[places[2].offset + 1] ^= 4;  // of the length
    put_file(path, bytes);
  }
  auto options = small(damaged.directory());
  EXPECT_EQ(open_images(options).error().code(), Code::kDataLoss);
  options.on_error = OnError::kSkip;
  const auto iterator = open_images(options).value();
  EXPECT_EQ(iterator->lost(), 2);
  EXPECT_EQ(iterator->records_per_epoch(), kImages - 2);
  EXPECT_NE(iterator->order_fingerprint(), open_images(small()).value()->order_fingerprint());
  options.max_bad = 1;
  EXPECT_THAT(open_images(options).error().message(), HasSubstr("2 places are damaged or missing, more than the 1"));
}

TEST(Images, TooManyBadRecordsFail) {
  const Damaged damaged({0, 1, 2});
  auto options = small(damaged.directory());
  options.on_error = OnError::kSkip;
  options.max_bad = 2;
  options.epochs = 1;
  const auto iterator = open_images(options).value();
  auto batch = iterator->next();
  while (batch && *batch) batch = iterator->next();
  ASSERT_FALSE(batch);
  EXPECT_THAT(batch.error().message(), HasSubstr("3 bad records"));
  options.max_bad = 3;
  EXPECT_FALSE(drain(options).empty());
}

TEST(Images, TruncatedFileFailsAtOnce) {
  const Damaged damaged({});
  std::filesystem::resize_file(damaged.path(), std::filesystem::file_size(damaged.path()) - 9);
  const auto opened = open_images(small(damaged.directory()));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Code::kDataLoss);
  EXPECT_THAT(opened.error().message(), HasSubstr(damaged.name(14)));
}

TEST(Images, ClassesAreFoundWithoutLabelFile) {
  const Damaged damaged({});
  std::filesystem::remove(damaged.directory() + "/labels.txt");
  EXPECT_EQ(open_images(small(damaged.directory())).value()->count_classes(), 5);
  auto options = small(damaged.directory());
  options.classes = 3;  // fewer than there are
  const auto iterator = open_images(options).value();
  auto batch = iterator->next();
  while (batch && *batch) batch = iterator->next();
  ASSERT_FALSE(batch);
  EXPECT_THAT(batch.error().message(), HasSubstr("classes have labels 1 to 3"));
}

// A damaged record that opening does not notice was not read.
TEST(Images, OpeningReadsNoRecordToFindTheClasses) {
  const Damaged damaged({3});
  std::filesystem::remove(damaged.directory() + "/labels.txt");
  const auto iterator = open_images(small(damaged.directory()));
  ASSERT_TRUE(iterator) << iterator.error().message();
  EXPECT_EQ((*iterator)->classes(), 0);
  auto options = small(damaged.directory());
  options.augmentation.mixing.mixup_alpha = 0.2;  // its targets are as long as there are classes
  EXPECT_THAT(open_images(options).error().message(), HasSubstr(damaged.name(3)));
  options.classes = 5;
  EXPECT_TRUE(open_images(options));
}

TEST(Images, ClassesAreCountedWithoutBadRecords) {
  const Damaged damaged({3, 7});
  std::filesystem::remove(damaged.directory() + "/labels.txt");
  auto options = small(damaged.directory());
  for (const int threads : {0, 1, 3}) {
    options.threads = threads;
    options.on_error = OnError::kFail;
    const auto failed = open_images(options).value()->count_classes();
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code(), Code::kDataLoss);
    EXPECT_THAT(failed.error().message(), HasSubstr(damaged.name(3)));
    EXPECT_THAT(failed.error().message(), HasSubstr("max_bad=N")) << "how to go on";
    options.on_error = OnError::kSkip;
    EXPECT_EQ(open_images(options).value()->count_classes(), 5);
  }
}

TEST(Images, AnImageOfTooManyPixelsIsAnErrorThatNamesIt) {
  auto options = small();
  options.pixels.max_pixels = 100;
  const auto batch = open_images(options).value()->next();
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code(), Code::kResourceExhausted);
  EXPECT_THAT(batch.error().message(), HasSubstr(rendered().path()));
  EXPECT_THAT(batch.error().message(), HasSubstr("at most 100 pixels are decoded (max_pixels)"));
  options.on_error = OnError::kSkip;
  options.training = false;
  options.epochs = 1;
  const auto iterator = open_images(options).value();
  for (const Made& made : drain(*iterator)) EXPECT_TRUE(made.labels.empty());
  EXPECT_EQ(iterator->skipped(), kValidation);
}

TEST(Images, BadOptionsAreRefused) {
  const auto code = [](auto change) {
    auto options = small();
    change(options);
    const auto opened = open_images(options);
    EXPECT_FALSE(opened);
    return opened ? Code::kInternal : opened.error().code();
  };
  using Options = ImagePipelineOptions;
  EXPECT_EQ(code([](Options& o) { o.batch = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.image_size = -1; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.image_size = ImageSize(16, 0); }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.pixels.max_pixels = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.pixels = {.interpolation = Interpolation::kArea, .antialias = false}; }),
            Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.rank = 1; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.size = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.min_area = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.threads = kAutoThreads - 1; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.batch = kImages + 1; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.directory += "/none"; }), Code::kUnavailable);
  EXPECT_EQ(code([](Options& o) { o.pattern = "test-*"; }), Code::kUnavailable);
}

}  // namespace
}  // namespace xoe::data::test
