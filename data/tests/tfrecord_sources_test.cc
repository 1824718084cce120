// Data sets of images in TFRecord files.
#include "data/source/formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/testing/scratch.h"
#include "data/records/file_index.h"
#include "data/tests/opened_sources.h"
#include "data/tests/record_files.h"

namespace xoe::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TfRecordImages, SplitsGroupsAndClasses) {
  const Scratch scratch;
  write_images(scratch.file("train-00000-of-00002"), 2);
  write_images(scratch.file("train-00001-of-00002"), 1);
  write_images(scratch.file("validation-00000-of-00001"), 1);
  put_file(scratch.file("labels.txt"), "cat\r\ndog\nbird\n\n");
  write_index(scratch.file("train-00000-of-00002"), {}).value();  // is no record file
  EXPECT_EQ(detect_source_format({.directory = scratch.path()}).value(), SourceFormat::kTfRecord);
  const auto train = opened({.directory = scratch.path()});
  EXPECT_THAT(read_all(*train), ElementsAre("jpeg0 1", "jpeg1 2", "jpeg0 1"));
  EXPECT_EQ(train->classes(), 3);
  EXPECT_EQ(train->label_offset(), 1);
  EXPECT_EQ(train->groups(), 2U);
  EXPECT_EQ(train->first(1), 2);
  EXPECT_EQ(opened({.directory = scratch.path(), .training = false})->records(), 1);
  EXPECT_EQ(opened({.directory = scratch.file("train-00001-of-00002")})->records(), 1);
  EXPECT_EQ(opened({.directory = scratch.path(), .pattern = "*-00000-*"})->records(), 3);
}

// Files as TensorFlow Datasets and others name them, and features with names of their own.
TEST(TfRecordImages, OfOtherPrograms) {
  const Scratch scratch;
  write_images(scratch.file("mine.tfrecord"), 2);
  EXPECT_EQ(opened({.directory = scratch.path()})->records(), 2);
  EXPECT_EQ(error_of({.directory = scratch.path(), .training = false}).code(), Code::kUnavailable);
  write_images(scratch.file("digits-test.tfrecord-00000-of-00001"), 1);
  EXPECT_EQ(error_of({.directory = scratch.path()}).code(), Code::kUnavailable) << "which of them is for training?";
  write_images(scratch.file("digits-train.tfrecord-00000-of-00001"), 3);
  EXPECT_EQ(opened({.directory = scratch.path()})->records(), 3);
  EXPECT_EQ(opened({.directory = scratch.path(), .training = false})->records(), 1);

  auto writer = RecordWriter::create(scratch.file("named.tfrecord")).value();
  ASSERT_TRUE(writer.write(FeaturesBuilder().add_bytes("image", "pixels").add_integer("label", 0).to_example()));
  ASSERT_TRUE(writer.finish());
  ImagePipelineOptions named{.directory = scratch.file("named.tfrecord")};
  std::string buffer;
  const auto unnamed = opened(named)->read(0, buffer);
  EXPECT_THAT(unnamed.error().message(), HasSubstr("no image/encoded among 2 features: image, label"));
  EXPECT_THAT(unnamed.error().message(), HasSubstr("--image-key, --label-key"));
  named.image_key = "image";
  named.label_key = "label";
  EXPECT_THAT(read_all(*opened(named)), ElementsAre("pixels 0"));
}

TEST(TfRecordImages, IndexesOfOtherToolsBesideThemAreLeftAlone) {
  const Scratch scratch;
  write_images(scratch.file("train-00000-of-00001"), 3);
  const std::string index = "0 61\n61 61\n122 61\n";
  for (const char* name : {"train-00000-of-00001.idx", "train-00000-of-00001.index"})
    put_file(scratch.file(name), index);
  for (const char* pattern : {"", "train*"})
    EXPECT_EQ(opened({.directory = scratch.path(), .pattern = pattern})->records(), 3) << pattern;
  // Not even one with the name of Xoe's is written over.
  put_file(scratch.file("train-00000-of-00001.xoeindex"), index);
  EXPECT_EQ(opened({.directory = scratch.path()})->records(), 3);
  const auto written = write_index(scratch.file("train-00000-of-00001"), {});
  EXPECT_EQ(written.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(written.error().message(), HasSubstr("train-00000-of-00001.xoeindex: not an index of Xoe"));
  EXPECT_EQ(read_file(scratch.file("train-00000-of-00001.xoeindex")), index);
}

TEST(TfRecordImages, SeveralLabelsAndOtherKeys) {
  const Scratch scratch;
  auto writer = RecordWriter::create(scratch.file("train-0")).value();
  const std::vector<std::vector<std::int64_t>> labels = {{0, 2}, {}, {7}};
  for (const auto& each : labels) {
    FeaturesBuilder features;
    ASSERT_TRUE(writer.write(features.add_bytes("png", "pixels").add_integers("findings", each).to_example()));
  }
  ASSERT_TRUE(writer.finish());
  ImagePipelineOptions options{
      .directory = scratch.path(), .image_key = "png", .label_key = "findings", .multi_label = true, .label_offset = 0};
  EXPECT_EQ(error_of(options).code(), Code::kInvalidArgument);
  options.classes = 3;
  EXPECT_THAT(read_all(*opened(options)), ElementsAre("pixels 1 0 1", "pixels 0 0 0", "data_loss"));
  put_file(scratch.file("labels.txt"), "cat\ndog\nbird\n");  // tells the classes, too, also of a single file
  options.classes = 0;
  for (const std::string& place : {scratch.path(), scratch.file("train-0")}) {
    options.directory = place;
    EXPECT_THAT(read_all(*opened(options)), ElementsAre("pixels 1 0 1", "pixels 0 0 0", "data_loss"));
  }
  options.multi_label = false;
  const auto single = opened(options);
  EXPECT_THAT(read_all(*single), ElementsAre("data_loss", "data_loss", "pixels 7"));
  std::string buffer;
  EXPECT_THAT(single->read(0, buffer).error().message(),
              HasSubstr("no single findings, but 2 values; set multi_label"));
}

TEST(TfRecordImages, DamagedFramingIsLeftOutWhereToldTo) {
  const Scratch scratch;
  write_images(scratch.file("train-0"), 5);
  std::string bytes = read_file(scratch.file("train-0"));
  bytes[9] ^= 1;
  put_file(scratch.file("train-0"), bytes);
  EXPECT_EQ(error_of({.directory = scratch.path()}).code(), Code::kDataLoss);
  const auto source = opened({.directory = scratch.path(), .on_error = OnError::kSkip});
  EXPECT_EQ(source->records(), 4);
  EXPECT_EQ(source->lost(), 1);
}

// A line's number is a label, so that one left out would shift those behind it.
TEST(TfRecordImages, LabelsTxtMayComeFromAnyEditor) {
  const Scratch scratch;
  write_images(scratch.file("train-0"), 3);
  put_file(scratch.file("labels.txt"), "\ufeffcat\r\nd\u00f6g\r\n\xe9\r\n\r\n");
  EXPECT_THAT(opened({.directory = scratch.path()})->class_names(), ElementsAre("cat", "d\u00f6g", "\xe9"));
  put_file(scratch.file("labels.txt"), "cat\n\ndog\nowl\n");
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(),
              HasSubstr(scratch.file("labels.txt") + ": line 2 is empty"));
}

}  // namespace
}  // namespace xoe::data
