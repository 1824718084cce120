// What labels mean, which are wrong, and where images come from: open_images() over labels that count from 0 and
// from 1.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "data/cli/convert/convert.h"
#include "data/files/tar.h"
#include "data/records/example.h"
#include "data/tests/idx_file.h"
#include "data/tests/rendered_images.h"
#include "xoe/data/example.h"
#include "xoe/data/record_writer.h"
#include "xoe/data/records.h"

namespace xoe::data::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A JPEG that every test may use.
std::string some_jpeg() {
  auto records = read_records(rendered().file("train-00000-of-00003"))->iterate(0).value();
  const Record record = *records->next().value();
  return std::string(parse_image_labels(record.data)->encoded);
}

class Labels : public ::testing::Test {
 protected:
  void write_records(const std::string& name, const std::vector<std::int64_t>& labels) const {
    auto writer = RecordWriter::create(scratch_.file(name)).value();
    for (const std::int64_t label : labels)
      ASSERT_TRUE(writer.write(make_image_example({.encoded = jpeg_, .label = label})));
    ASSERT_TRUE(writer.finish());
  }
  void write_archive(const std::string& name, const std::vector<std::int64_t>& labels) const {
    auto writer = TarWriter::create(scratch_.file(name)).value();
    for (std::size_t i = 0; i < labels.size(); ++i) {
      ASSERT_TRUE(writer.write(fmt::format("{}.jpg", i), jpeg_));
      ASSERT_TRUE(writer.write(fmt::format("{}.cls", i), std::to_string(labels[i])));
    }
    ASSERT_TRUE(writer.finish());
  }
  ImagePipelineOptions options() const {
    auto options = small(scratch_.path());
    options.batch = 2;
    options.training = false;
    options.pattern = "*";
    options.epochs = 1;
    return options;
  }
  // The labels of an epoch, or the error.
  static Result<std::vector<std::int64_t>> read(const ImagePipelineOptions& options) {
    XOE_ASSIGN(const auto images, open_images(options));
    std::vector<std::int64_t> all;
    for (;;) {
      XOE_ASSIGN(const auto batch, images->next());
      if (!batch) return all;
      all.insert(all.end(), batch->labels.begin(), batch->labels.end());
    }
  }

  Scratch scratch_;
  std::string jpeg_ = some_jpeg();
};

using Numbers = std::vector<std::int64_t>;

TEST_F(Labels, OfRecordsCountFromOneUnlessToldOtherwise) {
  write_records("train-0", {1, 2, 3, 3});
  EXPECT_EQ(read(options()).value(), (Numbers{0, 1, 2, 2}));
  auto from_zero = options();
  from_zero.label_offset = 0;
  EXPECT_EQ(read(from_zero).value(), (Numbers{1, 2, 3, 3}));
}

// Neither guessed nor dropped, and the error says what to do.
TEST_F(Labels, AZeroIsAskedAbout) {
  write_records("train-0", {1, 2, 0, 0});
  for (const OnError on_error : {OnError::kFail, OnError::kSkip}) {
    auto asking = options();
    asking.on_error = on_error;
    const auto failed = open_images(asking);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(failed.error().message(), AllOf(HasSubstr(scratch_.file("train-0") + ": record 2 at byte"),
                                                HasSubstr("label 0"), HasSubstr("--label-offset 0")));
    asking.rank = 1;  // rank 0 has looked for all
    asking.size = 2;
    const auto late = read(asking);
    ASSERT_FALSE(late);
    EXPECT_THAT(late.error().message(), AllOf(HasSubstr("record 3"), HasSubstr("--label-offset 0")));
    const auto counted = open_images(asking).value()->count_classes();
    EXPECT_THAT(counted.error().message(), AllOf(HasSubstr("record 2"), HasSubstr("--label-offset 0")));
    asking.rank = 0;
    asking.size = 1;
    asking.label_offset = 0;
    EXPECT_EQ(read(asking).value(), (Numbers{1, 2, 0, 0}));
    EXPECT_EQ(open_images(asking).value()->count_classes(), 3);
  }
  // Who says that labels count from 1 has zeros left out, as other broken records.
  auto told = options();
  told.label_offset = 1;
  told.on_error = OnError::kSkip;
  EXPECT_EQ(read(told).value(), (Numbers{0, 1}));
}

// Labels from 0 whose class 0 is absent look like labels from 1, so the assumption is told, unless the data show it.
TEST_F(Labels, AnAssumedOffsetIsTold) {
  write_records("train-0", {1, 3, 7, 3});
  std::vector<std::string> told;
  auto asking = options();
  asking.warn = [&told](std::string_view line) { told.emplace_back(line); };
  const auto told_by = [&](const ImagePipelineOptions& wanted) {
    told.clear();
    EXPECT_TRUE(open_images(wanted));
    return told;
  };
  EXPECT_THAT(told_by(asking), ElementsAre(AllOf(HasSubstr(scratch_.path()), HasSubstr("to count from 1"),
                                                 HasSubstr("all 4 records were looked at, with labels 1 to 7"),
                                                 HasSubstr("say label_offset 1 or 0 (--label-offset)"))));
  for (const int offset : {0, 1}) {
    auto outright = asking;
    outright.label_offset = offset;
    EXPECT_THAT(told_by(outright), IsEmpty());
  }
  auto other_rank = asking;
  other_rank.rank = 1;
  other_rank.size = 2;
  EXPECT_THAT(told_by(other_rank), IsEmpty());
  auto listed = asking;  // a list of labels for each image
  listed.multi_label = true;
  listed.classes = 9;
  EXPECT_THAT(told_by(listed), ElementsAre(HasSubstr("with labels 1 to 7")));
  // The last of 7 classes is there, which labels from 0 cannot have.
  auto last = asking;
  last.classes = 7;
  EXPECT_THAT(told_by(last), IsEmpty());
  last.classes = 8;
  EXPECT_THAT(told_by(last), ElementsAre(HasSubstr("to count from 1")));
}

TEST_F(Labels, AnAssumedOffsetOfManyRecordsIsTakenFromSome) {
  Numbers labels(500, 2);
  labels.front() = 1;
  labels.back() = 19;
  write_records("train-0", labels);
  std::vector<std::string> told;
  auto asking = options();
  asking.warn = [&told](std::string_view line) { told.emplace_back(line); };
  ASSERT_TRUE(open_images(asking));
  EXPECT_THAT(told, ElementsAre(HasSubstr("64 of 500 records were looked at, with labels 1 to 19")));
}

// What Xoe writes names the class in the record and in labels.txt.
TEST_F(Labels, ThatRecordsNameAreCertain) {
  auto writer = RecordWriter::create(scratch_.file("train-0")).value();
  for (const std::int64_t label : {1, 2})
    ASSERT_TRUE(
        writer.write(make_image_example({.encoded = jpeg_, .label = label, .text = label == 1 ? "cat" : "dog"})));
  ASSERT_TRUE(writer.finish());
  std::vector<std::string> told;
  auto asking = options();
  asking.warn = [&told](std::string_view line) { told.emplace_back(line); };
  put_file(scratch_.file("labels.txt"), "cat\ndog\nowl\n");
  asking.pattern = "train-*";
  ASSERT_TRUE(open_images(asking));
  EXPECT_THAT(told, IsEmpty());
  put_file(scratch_.file("labels.txt"), "owl\ncat\ndog\n");  // from 0
  ASSERT_TRUE(open_images(asking));
  EXPECT_EQ(told.size(), 1U);
}

TEST_F(Labels, OutOfRangeNameFileAndRecord) {
  write_records("train-0", {0, 1});
  write_records("train-1", {2, 7});
  auto few = options();
  few.label_offset = 0;
  few.classes = 3;
  EXPECT_THAT(read(few).error().message(), AllOf(HasSubstr(scratch_.file("train-1") + ": record 1 at byte"),
                                                 HasSubstr("label 7; the 3 classes have labels 0 to 2")));
  few.classes = 7;
  EXPECT_THAT(read(few).error().message(), HasSubstr("(label_offset, --label-offset, sets the first)"));
  few.label_offset = 1;
  EXPECT_THAT(read(few).error().message(),
              AllOf(HasSubstr(scratch_.file("train-0") + ": record 0"), HasSubstr("label 0; the labels count from 1")));
}

TEST_F(Labels, OfArchivesAndIdxFilesCountFromZeroUnlessToldOtherwise) {
  write_archive("a.tar", {1, 2, 1});
  auto tar = options();
  tar.pattern = "*.tar";
  EXPECT_EQ(read(tar).value(), (Numbers{1, 2, 1}));
  EXPECT_EQ(open_images(tar).value()->classes(), 3);
  tar.label_offset = 1;
  EXPECT_EQ(read(tar).value(), (Numbers{0, 1, 0}));
  EXPECT_EQ(open_images(tar).value()->classes(), 2);
  tar.label_offset = 2;
  EXPECT_THAT(read(tar).error().message(), AllOf(HasSubstr("a.tar: 0.jpg"), HasSubstr("the labels count from 2")));

  write_idx(scratch_.file("t10k-images-idx3-ubyte"), {2, 3}, {"abcdef", "ghijkl"});  // letters count from 1
  write_idx(scratch_.file("t10k-labels-idx1-ubyte"), {}, {"\x01", "\x1a"});
  auto letters = options();
  letters.pattern = {};
  letters.format = SourceFormat::kIdx;
  letters.label_offset = 1;
  EXPECT_EQ(read(letters).value(), (Numbers{0, 25}));
  EXPECT_EQ(open_images(letters).value()->classes(), 26);
}

TEST_F(Labels, FoldersHaveNames) {
  std::filesystem::create_directories(scratch_.file("cat"));
  put_file(scratch_.file("cat/1.jpg"), jpeg_);
  auto folders = options();
  folders.pattern = {};
  folders.training = true;
  folders.batch = 1;
  EXPECT_EQ(read(folders).value(), Numbers{0});
  folders.label_offset = 0;
  EXPECT_EQ(read(folders).value(), Numbers{0});
  folders.label_offset = 1;
  EXPECT_EQ(read(folders).error().code(), Code::kInvalidArgument);
  EXPECT_THAT(read(folders).error().message(), HasSubstr("folders of classes have names, not numbers"));
}

TEST_F(Labels, OfAConversionAreTheSameQuestion) {
  write_records("train-0", {0, 2});
  ConvertOptions convert{.from = {.directory = scratch_.path(), .max_bad = 5}, .directory = scratch_.file("to")};
  const auto go_on = [](std::int64_t, std::int64_t) { return true; };
  EXPECT_THAT(data::convert(convert, go_on).error().message(),
              AllOf(HasSubstr("record 0"), HasSubstr("--label-offset 0")));
  convert.from.label_offset = 0;
  ASSERT_TRUE(data::convert(convert, go_on));
  auto converted = small(scratch_.file("to"));
  converted.batch = 2;
  EXPECT_EQ(open_images(converted).value()->classes(), 3);
}

// ---- Origins

// The label of a record of a file, from 0, read again.
std::int64_t label_at(const ImageOrigin& origin) {
  auto records = read_records(origin.file)->iterate(0).value();
  for (;;) {
    const auto record = records->next();
    if (!record || !*record) return -1;
    if ((*record)->number != origin.record) continue;
    EXPECT_EQ(origin.name, fmt::format("{}: record {} at byte {}", origin.file, origin.record, (*record)->offset));
    return parse_image_labels((*record)->data)->label - 1;
  }
}

TEST(Origins, FindEachImageAgain) {
  for (const int threads : {0, 3}) {
    auto options = small();
    options.threads = threads;
    const auto images = open_images(options).value();
    std::vector<std::string> names;
    while (const auto batch = images->next().value()) {
      ASSERT_EQ(batch->records.size(), batch->labels.size());
      for (int i = 0; i < batch->count; ++i) {
        const ImageOrigin origin = batch->origin(i);
        EXPECT_EQ(label_at(origin), batch->labels[static_cast<std::size_t>(i)]) << origin.name;
        if (batch->epoch == 0) names.push_back(origin.name);
      }
    }
    std::ranges::sort(names);
    EXPECT_EQ(std::ranges::unique(names).size(), 0U);
  }
}

// A replacement for a bad record has the origin of what it is.
TEST(Origins, FollowTheImageThatTakesABadOnesPlace) {
  const Damaged damaged({1, 5});
  auto options = small(damaged.directory());
  options.on_error = OnError::kSkip;
  options.remainder = Remainder::kPad;
  const auto images = open_images(options).value();
  while (const auto batch = images->next().value())
    for (int i = 0; i < batch->count; ++i) {
      const ImageOrigin origin = batch->origin(i);
      EXPECT_NE(origin.name, damaged.name(1));
      EXPECT_NE(origin.name, damaged.name(5));
      if (origin.file == damaged.path()) continue;  // label_at() stops at the damage
      EXPECT_EQ(label_at(origin), batch->labels[static_cast<std::size_t>(i)]);
    }
  EXPECT_GT(images->skipped(), 0);
}

TEST_F(Labels, OriginsOfArchivesAndFolders) {
  write_archive("a.tar", {4});
  write_archive("b.tar", {5, 6});
  auto tar = options();
  tar.pattern = "*.tar";
  tar.batch = 3;
  std::optional<ImageBatch> batch = open_images(tar).value()->next().value();  // outlives the iterator
  EXPECT_EQ(batch->origin(2).file, scratch_.file("b.tar"));
  EXPECT_EQ(batch->origin(2).record, 1);
  EXPECT_THAT(batch->origin(2).name, HasSubstr("b.tar: 1.jpg at byte"));
  EXPECT_EQ(batch->records, (Numbers{0, 1, 2}));

  std::filesystem::create_directories(scratch_.file("set/cat"));
  put_file(scratch_.file("set/cat/1.jpg"), jpeg_);
  auto folder = small(scratch_.file("set"));
  folder.batch = 1;
  batch = open_images(folder).value()->next().value();
  EXPECT_EQ(batch->origin(0).file, scratch_.file("set/cat/1.jpg"));
  EXPECT_EQ(batch->origin(0).record, 0);
}

}  // namespace
}  // namespace xoe::data::test
