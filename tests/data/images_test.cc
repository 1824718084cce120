// open_images(): the laws of sharding, order, resuming and bad records, over rendered files.
#include "xoe/data/images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "data/record_file.h"
#include "data/synth/data_set.h"
#include "scratch.h"

namespace xoe::data {
namespace {

using test::put_file;
using test::read_file;
using test::Scratch;
using ::testing::HasSubstr;

constexpr int kImages = 45;
constexpr int kValidation = 11;

// Rendered once for all tests, which do not change it.
const Scratch& rendered() {
  static const Scratch scratch;
  static const bool made = [] {
    const synth::DataSetOptions options{.directory = scratch.path(),
                                        .images = kImages,
                                        .validation = kValidation,
                                        .classes = 5,
                                        .shards = 3,
                                        .size_min = 24,
                                        .size_max = 40};
    return synth::make_data_set(options, [](std::int64_t, std::int64_t) { return true; }).has_value();
  }();
  EXPECT_TRUE(made);
  return scratch;
}

ImagePipelineOptions small(const std::string& directory = rendered().path()) {
  return {.directory = directory, .batch = 4, .image_size = 16, .threads = 0, .seed = 3, .epochs = 2};
}

// A delivered batch by value.
struct Made {
  std::int64_t epoch;
  std::int64_t index;
  std::vector<std::int64_t> labels;
  std::vector<float> pixels;

  bool operator==(const Made&) const = default;
};

Made made_of(const ImageBatch& batch) {
  EXPECT_EQ(batch.labels.size(), static_cast<std::size_t>(batch.count));
  const auto floats = static_cast<std::size_t>(batch.count * batch.channels * batch.height * batch.width);
  return {batch.epoch, batch.index, batch.labels, {batch.pixels.get(), batch.pixels.get() + floats}};
}

std::vector<Made> drain(ImageIterator& iterator, std::size_t most = 10000) {
  std::vector<Made> all;
  while (all.size() < most) {
    auto batch = iterator.next();
    EXPECT_TRUE(batch) << batch.error().message();
    if (!batch || !*batch) break;
    all.push_back(made_of(**batch));
  }
  return all;
}
std::vector<Made> drain(const ImagePipelineOptions& options) { return drain(*open_images(options).value()); }

TEST(Images, AreTheSameForAnyThreadsAndPrefetch) {
  const auto expected = drain(small());
  EXPECT_EQ(expected.size(), 2U * (kImages / 4));
  for (const int threads : {1, 2, 4, 9})
    for (const int prefetch : {0, 1, 5}) {
      auto options = small();
      options.threads = threads;
      options.prefetch = prefetch;
      EXPECT_EQ(drain(options), expected) << threads << " " << prefetch;
    }
}

TEST(Images, AreNormalisedAndLabelled) {
  auto options = small();
  options.shuffle_buffer = 0;
  options.training = false;
  options.epochs = 1;
  options.pattern = "train-*";
  const auto iterator = open_images(options).value();
  EXPECT_EQ(iterator->classes(), 5);
  EXPECT_EQ(iterator->records_per_epoch(), kImages);
  std::int64_t expected = 0;
  for (const Made& made : drain(*iterator)) {
    for (const std::int64_t label : made.labels) EXPECT_EQ(label, expected++ % 5);
    for (const float pixel : made.pixels) {
      EXPECT_GT(pixel, -2.2F);
      EXPECT_LT(pixel, 2.7F);
    }
  }
  EXPECT_EQ(expected, kImages);
}

TEST(Images, EpochsAndSeedsDiffer) {
  const auto all = drain(small());
  const std::size_t half = all.size() / 2;
  EXPECT_EQ(all[half].epoch, 1);
  EXPECT_EQ(all[half].index, 0);
  EXPECT_NE(all[0].pixels, all[half].pixels);
  auto options = small();
  options.seed = 4;
  EXPECT_NE(drain(options)[0].pixels, all[0].pixels);
}

using Pixels = std::vector<float>;

// The images of an epoch as a sorted list, to compare what was delivered whatever the order.
std::vector<Pixels> images_of(const std::vector<Made>& batches, std::int64_t epoch) {
  std::vector<Pixels> images;
  for (const Made& made : batches) {
    if (made.epoch != epoch) continue;
    const std::size_t floats = made.labels.empty() ? 0 : made.pixels.size() / made.labels.size();
    for (std::size_t i = 0; i < made.labels.size(); ++i) {
      const auto start = made.pixels.begin() + static_cast<std::ptrdiff_t>(i * floats);
      images.emplace_back(start, start + static_cast<std::ptrdiff_t>(floats));
    }
  }
  std::sort(images.begin(), images.end());
  return images;
}

TEST(Images, EvaluationDeliversEveryRecordOnceOnAnyNumberOfRanks) {
  auto options = small();
  options.training = false;
  const auto expected = images_of(drain(options), 0);
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(kValidation));
  for (const int size : {2, 3, 7, 20})  // more ranks than files, and than records
    for (const int batch : {1, 4}) {
      std::vector<Made> all;
      for (options.rank = 0, options.size = size, options.batch = batch; options.rank < size; ++options.rank) {
        options.threads = options.rank % 3;
        const auto iterator = open_images(options).value();
        const auto mine = drain(*iterator);
        EXPECT_EQ(mine.size(), 2U * static_cast<std::size_t>(iterator->batches_per_epoch()));
        EXPECT_EQ(iterator->batches_per_epoch(), ((kValidation + size - 1) / size + batch - 1) / batch);
        all.insert(all.end(), mine.begin(), mine.end());
      }
      EXPECT_EQ(images_of(all, 0), expected) << size << " " << batch;
      EXPECT_EQ(images_of(all, 1), expected) << size << " " << batch;
    }
}

TEST(Images, TrainingStepsAreTheSameForAnyNumberOfRanks) {
  const auto steps = [](int size) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Pixels>> made;
    auto options = small();
    options.size = size;
    options.batch = 12 / size;
    for (; options.rank < size; ++options.rank)
      for (const Made& batch : drain(options))
        for (Pixels& image : images_of({batch}, batch.epoch))
          made[{batch.epoch, batch.index}].push_back(std::move(image));
    for (auto& [step, images] : made) std::sort(images.begin(), images.end());
    return made;
  };
  const auto one = steps(1);
  EXPECT_EQ(one.size(), 2U * (kImages / 12));
  EXPECT_EQ(one, steps(2));
  EXPECT_EQ(one, steps(3));
}

TEST(Images, ResumeToTheBitFromEveryPosition) {
  for (const Remainder remainder : {Remainder::kDrop, Remainder::kPad}) {
    auto options = small();
    options.size = 2;
    options.rank = 1;
    options.remainder = remainder;
    const auto expected = drain(options);
    for (std::size_t at = 0; at <= expected.size(); ++at) {
      options.threads = 2;
      const auto first = open_images(options).value();
      EXPECT_EQ(drain(*first, at).size(), at);
      const std::string text = first->save().to_text();
      EXPECT_LT(text.size(), 1024U);
      options.threads = at % 3 == 0 ? 0 : 3;
      const auto second = open_images(options).value();
      ASSERT_TRUE(second->restore(State::from_text(text).value()));
      const std::vector<Made> rest(expected.begin() + static_cast<std::ptrdiff_t>(at), expected.end());
      EXPECT_EQ(drain(*second), rest) << at;
      ASSERT_TRUE(first->restore(State::from_text(text).value()));
      EXPECT_EQ(drain(*first), rest) << at;
    }
  }
}

TEST(Images, ResumeRefusesOtherData) {
  const State state = open_images(small()).value()->save();
  const auto refused = [&state](const ImagePipelineOptions& options) {
    const Status restored = open_images(options).value()->restore(state);
    return !restored && restored.error().code() == Code::kInvalidArgument;
  };
  auto options = small();
  options.seed = 9;
  EXPECT_TRUE(refused(options));
  options = small();
  options.batch = 5;
  EXPECT_TRUE(refused(options));
  options = small();
  options.pattern = "validation-*";
  EXPECT_TRUE(refused(options));
  options = small();
  options.size = 2;  // the same joint batch
  options.batch = 2;
  EXPECT_FALSE(refused(options));
}

TEST(Images, BatchesOutliveTheIterator) {
  auto options = small();
  options.threads = 2;
  auto iterator = open_images(options).value();
  const ImageBatch first = **iterator->next();
  const Made before = made_of(first);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(iterator->next());
  EXPECT_EQ(made_of(first), before) << "memory in use is not reused";
  iterator.reset();
  EXPECT_EQ(made_of(first), before);
}

TEST(Images, CanBeDroppedAtAnyMoment) {
  auto options = small();
  options.threads = 3;
  for (std::size_t at = 0; at < 12; ++at) {
    const auto iterator = open_images(options).value();
    drain(*iterator, at % 4);
    EXPECT_GE(iterator->waited_seconds(), 0);
  }
}

// A copy of the rendered files in which some records of the first training file are damaged.
class Damaged {
 public:
  explicit Damaged(const std::vector<std::size_t>& records) {
    for (const auto& entry : std::filesystem::directory_iterator(rendered().path()))
      std::filesystem::copy(entry.path(), scratch_.path());
    const auto file = RecordFile::open(path()).value();
    places_ = file.scan().value();
    std::string bytes = read_file(path());
    for (const std::size_t record : records) bytes[places_[record].offset + kRecordHeader + 400] ^= 1;
    put_file(path(), bytes);
  }

  std::string path() const { return scratch_.file("train-00000-of-00003"); }
  const std::string& directory() const { return scratch_.path(); }
  std::string name(std::size_t record) const {
    return path() + ": record " + std::to_string(record) + " at byte " + std::to_string(places_[record].offset);
  }

 private:
  Scratch scratch_;
  std::vector<RecordPlace> places_;
};

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
  EXPECT_EQ(one->skipped(), 2 * (2 + 0)) << "two in each epoch, as padding does not reach them";
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
  EXPECT_EQ(open_images(small(damaged.directory())).value()->classes(), 5);
  auto options = small(damaged.directory());
  options.classes = 3;  // fewer than there are
  const auto iterator = open_images(options).value();
  auto batch = iterator->next();
  while (batch && *batch) batch = iterator->next();
  ASSERT_FALSE(batch);
  EXPECT_THAT(batch.error().message(), HasSubstr("classes have labels 1 to 3"));
}

TEST(Images, ClassesAreCountedWithoutBadRecords) {
  const Damaged damaged({3, 7});
  std::filesystem::remove(damaged.directory() + "/labels.txt");
  auto options = small(damaged.directory());
  for (const int threads : {0, 1, 3}) {
    options.threads = threads;
    options.on_error = OnError::kFail;
    const auto failed = open_images(options);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code(), Code::kDataLoss);
    EXPECT_THAT(failed.error().message(), HasSubstr(damaged.name(3)));
    options.on_error = OnError::kSkip;
    EXPECT_EQ(open_images(options).value()->classes(), 5);
  }
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
  EXPECT_EQ(code([](Options& o) { o.rank = 1; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.size = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.min_area = 0; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.threads = -1; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.batch = kImages + 1; }), Code::kInvalidArgument);
  EXPECT_EQ(code([](Options& o) { o.directory += "/none"; }), Code::kUnavailable);
  EXPECT_EQ(code([](Options& o) { o.pattern = "test-*"; }), Code::kUnavailable);
}

}  // namespace
}  // namespace xoe::data
