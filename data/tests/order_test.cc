// The order of records: of as many as ImageNet has, sorted by class; and the warning where it cannot be mixed.
#include "data/load/record_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <malloc.h>

#include <cmath>
#include <set>

#include "core/testing/scratch.h"
#include "data/load/class_runs.h"
#include "data/records/example.h"
#include "xoe/data/record_writer.h"

namespace xoe::data {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Records without a byte, sorted by class where `runs`.
class Numbers final : public ImageSource {
 public:
  Numbers(std::int64_t records, std::size_t groups, int classes, bool runs = true, bool random_access = true)
      : records_(records), groups_(groups), classes_(classes), runs_(runs), random_access_(random_access) {}

  std::int64_t records() const noexcept override { return records_; }
  std::size_t groups() const noexcept override { return groups_; }
  std::int64_t first(std::size_t group) const noexcept override {
    return records_ * static_cast<std::int64_t>(group) / static_cast<std::int64_t>(groups_);
  }
  bool random_access() const noexcept override { return random_access_; }
  Result<ImageRecord> read(std::int64_t record, std::string&) const override {
    return ImageRecord{.bytes = {}, .label = label_of(record), .targets = {}};
  }
  std::string name(std::int64_t record) const override { return std::to_string(record); }
  ImageOrigin origin(std::int64_t record) const override { return {{}, record, name(record)}; }
  int classes() const noexcept override { return classes_; }
  std::size_t files() const noexcept override { return 0; }
  OpenedFile file(std::size_t) const override { return {}; }

  std::int64_t label_of(std::int64_t record) const { return runs_ ? record * classes_ / records_ : record % classes_; }

 private:
  std::int64_t records_;
  std::size_t groups_;
  int classes_;
  bool runs_;
  bool random_access_;
};

constexpr std::int64_t kImages = 1281167;  // of ImageNet's training split
constexpr int kClasses = 1000;
constexpr int kBatch = 256;

TEST(OrderOfImageNet, IsAPermutationOfAllThatTakesNoMemory) {
  const auto source = std::make_shared<Numbers>(kImages, 1024, kClasses);
  const ImagePipelineOptions options{.shuffle_buffer = static_cast<int>(kImages), .seed = 3};
  const auto before = ::mallinfo2().uordblks;
  const auto order = record_order(source, options)(1);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    auto records = order->iterate(epoch).value();
    EXPECT_LT(::mallinfo2().uordblks, before + (64 << 10));
    std::vector<bool> seen(static_cast<std::size_t>(kImages));
    std::set<std::int64_t> in_batch;
    double distinct = 0;
    for (std::int64_t i = 0; i < kImages; ++i) {
      const RecordRef ref = *records->next().value();
      ASSERT_EQ(ref.epoch, epoch);
      ASSERT_FALSE(seen[static_cast<std::size_t>(ref.record)]);
      seen[static_cast<std::size_t>(ref.record)] = true;
      in_batch.insert(source->label_of(ref.record));
      if (i % kBatch != kBatch - 1) continue;
      distinct += static_cast<double>(in_batch.size());
      in_batch.clear();
    }
    EXPECT_FALSE(records->next().value());
    const double ideal = kClasses * (1 - std::pow(1 - 1.0 / kClasses, kBatch));
    EXPECT_NEAR(distinct / static_cast<double>(kImages / kBatch), ideal, 0.03 * ideal);
  }
}

TEST(ClassRuns, AreNoticedWhereTheBufferDoesNotReach) {
  const ImagePipelineOptions buffer{.directory = "data", .shuffle_buffer = kShuffleBuffer};
  for (const std::size_t groups : {std::size_t{1}, std::size_t{1024}}) {
    const Numbers sorted(kImages, groups, kClasses, true, false);
    const std::string told = describe_runs(sorted, buffer);
    EXPECT_THAT(told, HasSubstr("data: records of one class lie together"));
    EXPECT_THAT(told, HasSubstr("the shuffle buffer of 10000 records"));
    EXPECT_THAT(told, HasSubstr("xoe data convert"));
    EXPECT_THAT(told, HasSubstr("larger shuffle_buffer"));
    EXPECT_THAT(describe_runs(Numbers(kImages, groups, kClasses, false, false), buffer), IsEmpty());
  }
  ImagePipelineOptions by_file = buffer;
  by_file.shard_by_file = true;
  EXPECT_THAT(describe_runs(Numbers(kImages, 1024, kClasses), by_file), HasSubstr("leave out shard_by_file"));
  EXPECT_THAT(describe_runs(Numbers(kImages, 1024, kClasses), buffer), HasSubstr("set shuffle_buffer to auto"));
  EXPECT_THAT(describe_runs(Numbers(kImages, 1, 2), buffer), HasSubstr("lie together"));
}

TEST(ClassRuns, AreNoMatterElsewhere) {
  const Numbers sorted(kImages, 1, kClasses);
  EXPECT_THAT(describe_runs(sorted, {.shuffle_buffer = static_cast<int>(kImages)}), IsEmpty());
  EXPECT_THAT(describe_runs(sorted, {.shuffle_buffer = kShuffleBuffer, .training = false}), IsEmpty());
  EXPECT_THAT(describe_runs(sorted, {.shuffle_buffer = 1}), IsEmpty());  // the order of the files is wanted
  EXPECT_THAT(describe_runs(sorted, {.rank = 1, .size = 2, .shuffle_buffer = kShuffleBuffer}), IsEmpty());
  EXPECT_THAT(describe_runs(Numbers(kImages, 1, 1), {.shuffle_buffer = kShuffleBuffer}), IsEmpty());
}

// The samples must not warn by chance: few and many classes, at many sizes, which draw other samples.
TEST(ClassRuns, AreNotSeenInMixedRecords) {
  for (std::int64_t records = 20000; records < 20200; ++records) {
    const Numbers two(records, 1, 2, false);
    EXPECT_THAT(describe_runs(two, {.shuffle_buffer = 1000}), IsEmpty()) << records;
    const Numbers many(records, 1, 977, false);
    EXPECT_THAT(describe_runs(many, {.shuffle_buffer = 1000}), IsEmpty()) << records;
  }
}

void write_sorted(const std::string& path, int records, Compression compression) {
  auto writer = RecordWriter::create(path, compression).value();
  for (int i = 0; i < records; ++i)
    ASSERT_TRUE(writer.write(make_image_example({.encoded = "jpeg", .label = i * 10 / records + 1})));
  ASSERT_TRUE(writer.finish());
}

std::vector<std::string> warnings_of(ImagePipelineOptions options) {
  std::vector<std::string> lines;
  options.warn = [&lines](std::string_view line) { lines.emplace_back(line); };
  options.threads = 0;
  const auto images = open_images(options);
  EXPECT_TRUE(images) << images.error().message();
  return lines;
}

TEST(ClassRuns, WarnWhenAPipelineIsOpened) {
  const Scratch scratch;
  constexpr int kRecords = 12000;
  write_sorted(scratch.file("train-00000-of-00001"), kRecords, Compression::kGzip);
  const ImagePipelineOptions options{.directory = scratch.path(), .classes = 10};
  const auto compressed = warnings_of(options);
  ASSERT_EQ(compressed.size(), 0U) << "10,000 of 12,000 are nearly all";
  ImagePipelineOptions smaller = options;
  smaller.shuffle_buffer = 1000;
  ASSERT_EQ(warnings_of(smaller).size(), 1U);
  EXPECT_THAT(warnings_of(smaller)[0], HasSubstr("xoe data convert"));
  std::filesystem::remove(scratch.file("train-00000-of-00001"));
  write_sorted(scratch.file("train-00000-of-00001"), 60000, Compression::kGzip);
  EXPECT_EQ(warnings_of(options).size(), 1U) << "with the default, too";
  write_sorted(scratch.file("train-00000-of-00001"), 60000, Compression::kNone);
  EXPECT_EQ(warnings_of(options).size(), 0U) << "each can be read by itself";
  ImagePipelineOptions by_file = options;
  by_file.shard_by_file = true;
  EXPECT_EQ(warnings_of(by_file).size(), 1U);
}

TEST(MissingParts, AreWarnedOf) {
  const Scratch scratch;
  write_sorted(scratch.file("train-00000-of-00002"), 100, Compression::kNone);
  const auto lines = warnings_of({.directory = scratch.path(), .allow_missing = true, .classes = 10});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("1 missing part left out: "));
  EXPECT_THAT(lines[0], HasSubstr("train-00001-of-00002: absent"));
}

}  // namespace
}  // namespace xoe::data
