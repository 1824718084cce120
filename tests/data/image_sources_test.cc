// Every format of image data sets: opened by what the directory holds, read, and damaged.
#include "data/source/formats.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "data/files/tar.h"
#include "data/records/example.h"
#include "data/records/file_index.h"
#include "idx_file.h"
#include "record_files.h"
#include "scratch.h"

namespace xoe::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void put_deep(const Scratch& scratch, const std::string& name, std::string_view content) {
  std::filesystem::create_directories(std::filesystem::path(scratch.file(name)).parent_path());
  put_file(scratch.file(name), content);
}

// "bytes label" of every record.
std::vector<std::string> read_all(const ImageSource& source) {
  std::vector<std::string> records;
  std::string buffer;
  for (std::int64_t i = 0; i < source.records(); ++i) {
    const auto image = source.read(i, buffer);
    if (!image) {
      EXPECT_THAT(image.error().message(), HasSubstr(source.name(i)));
      records.push_back(std::string(code_name(image.error().code())));
      continue;
    }
    records.push_back(std::string(image->bytes));
    if (source.multi_label())
      for (const float target : image->targets) records.back() += target > 0 ? " 1" : " 0";
    else
      records.back() += " " + std::to_string(image->label);
  }
  return records;
}
std::unique_ptr<ImageSource> open(const ImagePipelineOptions& options) {
  auto source = open_image_source(options);
  EXPECT_TRUE(source) << source.error().message();
  return std::move(source).value();
}
Error error_of(const ImagePipelineOptions& options) {
  const auto source = open_image_source(options);
  EXPECT_FALSE(source);
  return source.error();
}

void write_images(const std::string& path, int count) {
  auto writer = RecordWriter::create(path).value();
  for (int i = 0; i < count; ++i)
    EXPECT_TRUE(writer.write(make_image_example({.encoded = "jpeg" + std::to_string(i), .label = i + 1})));
  EXPECT_TRUE(writer.finish());
}

TEST(TfRecordImages, SplitsGroupsAndClasses) {
  const Scratch scratch;
  write_images(scratch.file("train-00000-of-00002"), 2);
  write_images(scratch.file("train-00001-of-00002"), 1);
  write_images(scratch.file("validation-00000-of-00001"), 1);
  put_file(scratch.file("labels.txt"), "cat\r\ndog\nbird\n\n");
  write_index(scratch.file("train-00000-of-00002"), {}).value();  // is no record file
  EXPECT_EQ(detect_source_format({.directory = scratch.path()}).value(), SourceFormat::kTfRecord);
  const auto train = open({.directory = scratch.path()});
  EXPECT_THAT(read_all(*train), ElementsAre("jpeg0 1", "jpeg1 2", "jpeg0 1"));
  EXPECT_EQ(train->classes(), 3);
  EXPECT_EQ(train->label_offset(), 1);
  EXPECT_EQ(train->groups(), 2U);
  EXPECT_EQ(train->first(1), 2);
  EXPECT_EQ(open({.directory = scratch.path(), .training = false})->records(), 1);
  EXPECT_EQ(open({.directory = scratch.file("train-00001-of-00002")})->records(), 1);
  EXPECT_EQ(open({.directory = scratch.path(), .pattern = "*-00000-*"})->records(), 3);
}

// Files as TensorFlow Datasets and others name them, and features with names of their own.
TEST(TfRecordImages, OfOtherPrograms) {
  const Scratch scratch;
  write_images(scratch.file("mine.tfrecord"), 2);
  EXPECT_EQ(open({.directory = scratch.path()})->records(), 2);
  EXPECT_EQ(error_of({.directory = scratch.path(), .training = false}).code(), Code::kUnavailable);
  write_images(scratch.file("digits-test.tfrecord-00000-of-00001"), 1);
  EXPECT_EQ(error_of({.directory = scratch.path()}).code(), Code::kUnavailable) << "which of them is for training?";
  write_images(scratch.file("digits-train.tfrecord-00000-of-00001"), 3);
  EXPECT_EQ(open({.directory = scratch.path()})->records(), 3);
  EXPECT_EQ(open({.directory = scratch.path(), .training = false})->records(), 1);

  auto writer = RecordWriter::create(scratch.file("named.tfrecord")).value();
  ASSERT_TRUE(writer.write(FeaturesBuilder().add_bytes("image", "pixels").add_integer("label", 0).to_example()));
  ASSERT_TRUE(writer.finish());
  ImagePipelineOptions named{.directory = scratch.file("named.tfrecord")};
  std::string buffer;
  const auto unnamed = open(named)->read(0, buffer);
  EXPECT_THAT(unnamed.error().message(), HasSubstr("no image/encoded among 2 features: image, label"));
  EXPECT_THAT(unnamed.error().message(), HasSubstr("--image-key, --label-key"));
  named.image_key = "image";
  named.label_key = "label";
  EXPECT_THAT(read_all(*open(named)), ElementsAre("pixels 0"));
}

TEST(TfRecordImages, IndexesOfOtherToolsBesideThemAreLeftAlone) {
  const Scratch scratch;
  write_images(scratch.file("train-00000-of-00001"), 3);
  const std::string index = "0 61\n61 61\n122 61\n";
  for (const char* name : {"train-00000-of-00001.idx", "train-00000-of-00001.index"})
    put_file(scratch.file(name), index);
  for (const char* pattern : {"", "train*"})
    EXPECT_EQ(open({.directory = scratch.path(), .pattern = pattern})->records(), 3) << pattern;
  // Not even one with the name of Xoe's is written over.
  put_file(scratch.file("train-00000-of-00001.xoeindex"), index);
  EXPECT_EQ(open({.directory = scratch.path()})->records(), 3);
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
  EXPECT_THAT(read_all(*open(options)), ElementsAre("pixels 1 0 1", "pixels 0 0 0", "data_loss"));
  put_file(scratch.file("labels.txt"), "cat\ndog\nbird\n");  // tells the classes, too, also of a single file
  options.classes = 0;
  for (const std::string& place : {scratch.path(), scratch.file("train-0")}) {
    options.directory = place;
    EXPECT_THAT(read_all(*open(options)), ElementsAre("pixels 1 0 1", "pixels 0 0 0", "data_loss"));
  }
  options.multi_label = false;
  const auto single = open(options);
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
  const auto source = open({.directory = scratch.path(), .on_error = OnError::kSkip});
  EXPECT_EQ(source->records(), 4);
  EXPECT_EQ(source->lost(), 1);
}

// A line's number is a label, so that one left out would shift those behind it.
TEST(TfRecordImages, LabelsTxtMayComeFromAnyEditor) {
  const Scratch scratch;
  write_images(scratch.file("train-0"), 3);
  put_file(scratch.file("labels.txt"), "\ufeffcat\r\nd\u00f6g\r\n\xe9\r\n\r\n");
  EXPECT_THAT(open({.directory = scratch.path()})->class_names(), ElementsAre("cat", "d\u00f6g", "\xe9"));
  put_file(scratch.file("labels.txt"), "cat\n\ndog\nowl\n");
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(),
              HasSubstr(scratch.file("labels.txt") + ": line 2 is empty"));
}

TEST(ImageFolder, ClassesAreFoldersInTheirOrder) {
  const Scratch scratch;
  put_deep(scratch, "dog/b.JPG", "dog b");
  put_deep(scratch, "dog/a.png", "dog a");
  put_deep(scratch, "cat/x.jpeg", "cat x");
  put_deep(scratch, "cat/readme.txt", "no image");
  put_deep(scratch, "cat/.hidden.jpg", "no image");
  EXPECT_EQ(detect_source_format({.directory = scratch.path()}).value(), SourceFormat::kFolder);
  const auto source = open({.directory = scratch.path()});
  EXPECT_THAT(read_all(*source), ElementsAre("cat x 0", "dog a 1", "dog b 1"));
  EXPECT_EQ(source->classes(), 2);
  EXPECT_EQ(source->label_offset(), 0);
  EXPECT_EQ(source->name(2), scratch.file("dog/b.JPG"));
  std::filesystem::remove(scratch.file("dog/a.png"));
  EXPECT_THAT(read_all(*source), ElementsAre("cat x 0", "unavailable", "dog b 1"));
  EXPECT_EQ(error_of({.directory = scratch.path(), .training = false}).code(), Code::kUnavailable);
}

// As torchvision's ImageFolder: folder by folder, then by name.
TEST(ImageFolder, FoldersWithinAClassBelongToIt) {
  const Scratch scratch;
  put_deep(scratch, "train/cat/b/2.jpg", "cat b 2");
  put_deep(scratch, "train/cat/a/deep/1.png", "cat a deep 1");
  put_deep(scratch, "train/cat/a/3.jpg", "cat a 3");
  put_deep(scratch, "train/cat/9.jpg", "cat 9");
  put_deep(scratch, "train/dog/x/1.jpg", "dog x 1");
  EXPECT_EQ(detect_source_format({.directory = scratch.path()}).value(), SourceFormat::kFolder);
  const auto source = open({.directory = scratch.path()});
  EXPECT_THAT(read_all(*source), ElementsAre("cat 9 0", "cat a 3 0", "cat a deep 1 0", "cat b 2 0", "dog x 1 1"));
  EXPECT_EQ(source->classes(), 2);
  EXPECT_TRUE(source->warnings().empty());
  std::filesystem::create_directory_symlink(scratch.file("train/cat"), scratch.file("train/cat/a/round"));
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("more than 32 folders within each other"));
}

TEST(ImageFolder, OneLevelTooHighIsSaid) {
  const Scratch scratch;
  put_deep(scratch, "images/cat/1.jpg", "1");
  put_deep(scratch, "images/dog/1.jpg", "2");
  const Error error = error_of({.directory = scratch.path()});
  EXPECT_EQ(error.code(), Code::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("if those are the classes, open " + scratch.file("images")));
  put_deep(scratch, "images/2.jpg", "3");
  EXPECT_EQ(open({.directory = scratch.path()})->classes(), 1);
}

TEST(ImageFolder, ImagesOfOtherFormatsAreNamedOrLeftOut) {
  const Scratch scratch;
  put_deep(scratch, "cat/1.jpg", "1");
  for (int i = 0; i < 8; ++i) put_deep(scratch, fmt::format("dog/{}.WebP", i), "webp");
  put_deep(scratch, "dog/a.tiff", "tiff");
  put_deep(scratch, "dog/2.jpg", "2");
  const Error error = error_of({.directory = scratch.path()});
  EXPECT_EQ(error.code(), Code::kDataLoss);
  EXPECT_THAT(error.message(), HasSubstr("9 images in formats that are not read"));
  EXPECT_THAT(error.message(), HasSubstr(scratch.file("dog/0.WebP") + ", " + scratch.file("dog/1.WebP")));
  EXPECT_THAT(error.message(), HasSubstr(" and 4 more"));
  LeftOut left_out;
  const auto source = open_image_source({.directory = scratch.path(), .on_error = OnError::kSkip}, &left_out).value();
  EXPECT_THAT(read_all(*source), ElementsAre("1 0", "2 1"));
  EXPECT_EQ(source->lost(), 9);
  EXPECT_THAT(left_out.bad.first(), HasSubstr("0.WebP"));
  EXPECT_EQ(left_out.bad.count(), 9);
  EXPECT_THAT(error_of({.directory = scratch.path(), .on_error = OnError::kSkip, .max_bad = 8}).message(),
              HasSubstr("9 images"));
  // A folder of nothing else is one of images, too.
  std::filesystem::remove(scratch.file("cat/1.jpg"));
  std::filesystem::remove(scratch.file("dog/2.jpg"));
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("9 images in formats"));
}

TEST(ImageFolder, WhatIsLeftAloneIsTold) {
  const Scratch scratch;
  for (const char* name : {"cat/1.jpg", "cat/.2.jpg", "cat/._1.jpg", "cat/.DS_Store", "cat/.cache/3.jpg", "stray.png",
                           "cat/1.txt", "labels.csv", ".git/config"})
    put_deep(scratch, name, "content");
  const auto source = open({.directory = scratch.path()});
  EXPECT_EQ(source->records(), 1);
  EXPECT_THAT(
      source->warnings(),
      ElementsAre(HasSubstr("4 hidden files left out: " + scratch.file(".git") + ", " + scratch.file("cat/.2.jpg")),
                  HasSubstr("1 image in no class's folder, left out: " + scratch.file("stray.png"))));
  EXPECT_THAT(source->remarks(),
              ElementsAre(HasSubstr("2 files left alone, being no image: " + scratch.file("labels.csv"))));
}

TEST(ImageFolder, ClassesOfBothSplitsHaveTheSameNumbers) {
  const Scratch scratch;
  put_deep(scratch, "train/cat/1.jpg", "1");
  put_deep(scratch, "train/dog/1.jpg", "2");
  put_deep(scratch, "val/dog/1.jpg", "3");
  EXPECT_EQ(detect_source_format({.directory = scratch.path()}).value(), SourceFormat::kFolder);
  EXPECT_THAT(read_all(*open({.directory = scratch.path()})), ElementsAre("1 0", "2 1"));
  const ImagePipelineOptions validation{.directory = scratch.path(), .training = false};
  EXPECT_THAT(read_all(*open(validation)), ElementsAre("3 1"));
  put_deep(scratch, "val/emu/1.jpg", "4");
  EXPECT_THAT(error_of(validation).message(), HasSubstr("val/emu: no class of that name"));
}

TEST(ImageFolder, SplitsMayBeginWithCapitals) {
  const Scratch scratch;
  put_deep(scratch, "Train/cat/1.jpg", "1");
  put_deep(scratch, "Train/dog/1.jpg", "2");
  put_deep(scratch, "VAL/dog/1.jpg", "3");
  const ImagePipelineOptions validation{.directory = scratch.path(), .training = false};
  EXPECT_THAT(read_all(*open({.directory = scratch.path()})), ElementsAre("1 0", "2 1"));
  EXPECT_THAT(read_all(*open(validation)), ElementsAre("3 1"));
  EXPECT_TRUE(open(validation)->remarks().empty());
  put_deep(scratch, "test/cat/1.jpg", "4");
  EXPECT_THAT(read_all(*open(validation)), ElementsAre("3 1"));
  EXPECT_THAT(open(validation)->remarks(),
              ElementsAre(HasSubstr("images of " + scratch.file("VAL") + "; not of " + scratch.file("test"))));
}

std::string chest_row(const std::string& image, const std::string& findings) {
  return image + "," + findings + ",0,58\n";
}

TEST(NihChest, FindingsBecomeTargets) {
  const Scratch scratch;
  put_file(scratch.file("Data_Entry_2017.csv"),
           "Image Index,Finding Labels,Follow-up #,Patient ID\n" + chest_row("a.png", "Cardiomegaly|Hernia") +
               chest_row("b.png", "No Finding") + chest_row("c.png", "Atelectasis"));
  put_deep(scratch, "images_001/images/a.png", "A");
  put_deep(scratch, "images_002/images/b.png", "B");
  put_deep(scratch, "images/c.png", "C");
  EXPECT_EQ(detect_source_format({.directory = scratch.path()}).value(), SourceFormat::kNihChest);
  const auto source = open({.directory = scratch.path()});
  EXPECT_EQ(source->classes(), 14);
  EXPECT_TRUE(source->multi_label());
  EXPECT_THAT(read_all(*source), ElementsAre("A 0 1 0 0 0 0 0 0 0 0 0 0 0 1", "B 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
                                             "C 1 0 0 0 0 0 0 0 0 0 0 0 0 0"));
  EXPECT_EQ(error_of({.directory = scratch.path(), .training = false}).code(), Code::kUnavailable);
  put_file(scratch.file("train_val_list.txt"), "c.png\r\n");
  put_file(scratch.file("test_list.txt"), "a.png\nb.png");
  EXPECT_EQ(open({.directory = scratch.path()})->records(), 1);
  EXPECT_EQ(open({.directory = scratch.path(), .training = false})->records(), 2);
}

TEST(NihChest, WhatIsWrongIsSaidOrLeftOut) {
  const Scratch scratch;
  const std::string table = scratch.file("Data_Entry_2017_v2020.csv");
  put_deep(scratch, "images/a.png", "A");
  put_deep(scratch, "images/b.png", "B");
  put_file(table, "Image Index,Finding Labels\na.png,No Finding\nmissing.png,Mass\nb.png,Hiccup\nshort\n");
  const Error error = error_of({.directory = scratch.path()});
  EXPECT_EQ(error.code(), Code::kUnavailable);
  EXPECT_THAT(error.message(), HasSubstr("csv: line 3: no image missing.png"));
  const auto source = open({.directory = scratch.path(), .on_error = OnError::kSkip});
  EXPECT_EQ(source->records(), 1);
  EXPECT_EQ(source->lost(), 3);
  EXPECT_THAT(error_of({.directory = scratch.path(), .on_error = OnError::kSkip, .max_bad = 1}).message(),
              HasSubstr("unknown finding \"Hiccup\""));
  put_file(table, "Image Index,Finding Labels\na.png,No Finding\na.png,Mass\n");
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("line 3: a.png is in a row before, too"));
  put_file(table, "Image Index,Finding Labels\na.png,No Finding\n");
  EXPECT_THAT(open({.directory = scratch.path()})->warnings(),
              ElementsAre(AllOf(HasSubstr("1 image in no row of the table, left out"), HasSubstr("images/b.png"))));
  put_file(table, "Image,Labels\n");
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("no columns"));
}

void write_digits(const Scratch& scratch, const std::string& split) {
  write_idx(scratch.file(split + "-images-idx3-ubyte"), {2, 3}, {"abcdef", "ghijkl"});
  write_idx(scratch.file(split + "-labels-idx1-ubyte"), {}, {"\x05", "\x02"});
}

TEST(IdxImages, PlainAndGzip) {
  const Scratch scratch;
  write_digits(scratch, "train");
  write_digits(scratch, "t10k");
  ASSERT_EQ(std::system(("gzip " + scratch.file("t10k-images-idx3-ubyte")).c_str()), 0);
  EXPECT_EQ(detect_source_format({.directory = scratch.path()}).value(), SourceFormat::kIdx);
  for (const bool training : {true, false}) {
    const auto source = open({.directory = scratch.path(), .training = training});
    EXPECT_THAT(read_all(*source), ElementsAre("abcdef 5", "ghijkl 2"));
    EXPECT_EQ(source->classes(), 6);
    std::string buffer;
    const auto image = source->read(0, buffer).value();
    EXPECT_EQ(image.width, 3);
    EXPECT_EQ(image.height, 2);
    EXPECT_EQ(image.channels, 1);
  }
}

TEST(IdxImages, WhatCannotBeReadIsNamed) {
  const Scratch scratch;
  write_digits(scratch, "train");
  const auto source = open({.directory = scratch.path()});
  std::filesystem::resize_file(scratch.file("train-images-idx3-ubyte"), 23);
  EXPECT_THAT(read_all(*source), ElementsAre("abcdef 5", "data_loss"));  // with its name
}

TEST(IdxImages, CompressedFilesOfMoreThan2GiBAreRefused) {
  const Scratch scratch;
  write_digits(scratch, "train");
  std::string images = read_file(scratch.file("train-images-idx3-ubyte"));
  images.replace(4, 8, std::string("\0\1\0\0\0\0\x80\1", 8));  // 65536 items of 32769 rows
  put_file(scratch.file("train-images-idx3-ubyte"), images);
  ASSERT_EQ(std::system(("gzip " + scratch.file("train-images-idx3-ubyte")).c_str()), 0);
  const Error error = error_of({.directory = scratch.path()});
  EXPECT_EQ(error.code(), Code::kUnsupported);
  EXPECT_THAT(error.message(), HasSubstr("6442647552 bytes when decompressed"));
}

TEST(IdxImages, DamagedHeadersAndSizesAreDataLoss) {
  const Scratch scratch;
  write_digits(scratch, "train");
  const std::string path = scratch.file("train-images-idx3-ubyte");
  const std::string whole = read_file(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    put_file(path, whole.substr(0, size));
    EXPECT_EQ(error_of({.directory = path}).code(), Code::kDataLoss) << size;
  }
  for (std::size_t at = 0; at < 16; ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    put_file(path, damaged);
    EXPECT_THAT(error_of({.directory = path}).message(), HasSubstr(path)) << at;
  }
  put_file(path, whole);
  put_file(scratch.file("train-labels-idx1-ubyte"), read_file(scratch.file("train-labels-idx1-ubyte")).substr(0, 9));
  EXPECT_EQ(error_of({.directory = scratch.path()}).code(), Code::kDataLoss);
}

TEST(TarImages, SamplesAreMembersWithOneKey) {
  const Scratch scratch;
  for (const char* name : {"train-0.tar", "train-1.tar", "val-0.tar"}) {
    auto writer = TarWriter::create(scratch.file(name)).value();
    ASSERT_TRUE(writer.write("README", "about"));
    ASSERT_TRUE(writer.write("a/1.cls", "7\n"));
    ASSERT_TRUE(writer.write("a/1.JPG", std::string(name) + " one"));
    ASSERT_TRUE(writer.write("a/1.json", "{}"));
    ASSERT_TRUE(writer.write("a.b/1.x.y", "neither"));
    ASSERT_TRUE(writer.write("a.b/2.png", std::string(name) + " two"));
    ASSERT_TRUE(writer.write("a.b/2.cls", "0"));
    ASSERT_TRUE(writer.finish());
  }
  EXPECT_EQ(detect_source_format({.directory = scratch.path()}).value(), SourceFormat::kTar);
  const auto source = open({.directory = scratch.path()});
  EXPECT_EQ(source->groups(), 2U);
  EXPECT_THAT(read_all(*source),
              ElementsAre("train-0.tar one 7", "train-0.tar two 0", "train-1.tar one 7", "train-1.tar two 0"));
  EXPECT_EQ(source->name(1), scratch.file("train-0.tar") + ": a.b/2.png at byte 5632");
  EXPECT_EQ(open({.directory = scratch.path(), .training = false})->records(), 2);
  EXPECT_EQ(open({.directory = scratch.file("val-0.tar")})->records(), 2);
}

TEST(TarImages, CompressedArchivesHaveTheSameSamples) {
  const Scratch scratch;
  for (const char* name : {"train-0.tar", "train-1.tar", "val-0.tar"}) {
    auto writer = TarWriter::create(scratch.file(name)).value();
    for (int i = 0; i < 60; ++i) {
      ASSERT_TRUE(writer.write(fmt::format("{}.jpg", i), some_bytes(50'000, static_cast<std::uint64_t>(i))));
      ASSERT_TRUE(writer.write(fmt::format("{}.cls", i), std::to_string(i % 7)));
    }
    ASSERT_TRUE(writer.finish());
  }
  const auto plain = read_all(*open({.directory = scratch.path()}));
  ASSERT_EQ(std::system(("gzip " + scratch.file("train-0.tar") + " " + scratch.file("val-0.tar")).c_str()), 0);
  ASSERT_EQ(std::system(("gzip -S .x " + scratch.file("train-1.tar")).c_str()), 0);
  std::filesystem::rename(scratch.file("train-1.tar.x"), scratch.file("train-1.tgz"));
  EXPECT_EQ(detect_source_format({.directory = scratch.path()}).value(), SourceFormat::kTar);
  EXPECT_EQ(detect_source_format({.directory = scratch.file("train-1.tgz")}).value(), SourceFormat::kTar);
  const auto source = open({.directory = scratch.path()});
  EXPECT_EQ(read_all(*source), plain);
  EXPECT_EQ(source->groups(), 2U);
  EXPECT_FALSE(source->random_access());  // so that shuffling goes through a buffer
  EXPECT_EQ(open({.directory = scratch.path(), .training = false})->records(), 60);
  // Damage costs the rest of an archive, and nothing of the others.
  std::string bytes = read_file(scratch.file("train-0.tar.gz"));
  bytes.resize(bytes.size() / 2);
  put_file(scratch.file("train-0.tar.gz"), bytes);
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("train-0.tar.gz"));
  const auto rest = open({.directory = scratch.path(), .on_error = OnError::kSkip});
  EXPECT_GE(rest->lost(), 1);
  EXPECT_GT(rest->first(1), 20);
  EXPECT_LT(rest->first(1), 40);
  EXPECT_EQ(rest->records() - rest->first(1), 60);
  for (const std::string& record : read_all(*rest)) EXPECT_NE(record, "data_loss");
}

TEST(TarImages, IncompleteSamplesAndDamageAreSaidOrLeftOut) {
  const Scratch scratch;
  auto writer = TarWriter::create(scratch.file("a.tar")).value();
  const std::pair<const char*, const char*> members[] = {{"1.jpg", "one"},  {"2.jpg", "two"},  {"2.cls", "2"},
                                                         {"3.cls", "3"},    {"4.jpg", "four"}, {"4.cls", "x"},
                                                         {"5.jpg", "five"}, {"5.cls", "5"}};
  for (const auto& [name, data] : members) ASSERT_TRUE(writer.write(name, data));
  ASSERT_TRUE(writer.finish());
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("sample 1 has no label (.cls)"));
  const ImagePipelineOptions skip{.directory = scratch.path(), .on_error = OnError::kSkip};
  const auto source = open(skip);
  EXPECT_THAT(read_all(*source), ElementsAre("two 2", "five 5"));
  EXPECT_EQ(source->lost(), 3);  // 1, 3 and 4
  std::string bytes = read_file(scratch.file("a.tar"));
  bytes[2 * kTarBlock] ^= 1;
  put_file(scratch.file("a.tar"), bytes);
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("a.tar: header at byte 1024: the checksum"));
  EXPECT_THAT(read_all(*open(skip)), ElementsAre("five 5"));
}

// tar stores the second of two hard-linked files as a link, so that a whole sample may be links.
TEST(TarImages, LinksInThePlaceOfFilesAreSaid) {
  const Scratch scratch;
  for (const char* name : {"1.jpg", "1.cls", "3.jpg", "3.cls"}) put_file(scratch.file(name), "3");
  for (const char* ending : {".jpg", ".cls"}) {
    std::filesystem::create_hard_link(scratch.file(std::string("1") + ending), scratch.file(std::string("2") + ending));
    std::filesystem::create_symlink(std::string("1") + ending, scratch.file(std::string("4") + ending));
  }
  const std::string tar = "cd " + scratch.path() + " && tar -cf a.tar";
  ASSERT_EQ(std::system((tar + " 1.jpg 1.cls 2.jpg 2.cls 3.jpg 3.cls 4.jpg 4.cls").c_str()), 0);
  EXPECT_THAT(error_of({.directory = scratch.file("a.tar")}).message(),
              AllOf(HasSubstr("2.jpg: a hard link"), HasSubstr("--hard-dereference")));
  const auto source = open({.directory = scratch.file("a.tar"), .on_error = OnError::kSkip});
  EXPECT_THAT(read_all(*source), ElementsAre("3 3", "3 3"));
  EXPECT_EQ(source->lost(), 2);
  ASSERT_EQ(std::system((tar + " --dereference --hard-dereference [1-4].*").c_str()), 0);
  EXPECT_EQ(open({.directory = scratch.file("a.tar")})->records(), 4);
}

TEST(TarImages, OtherFormatsAndSecondLabelsAreSaid) {
  const Scratch scratch;
  const auto put = [&](std::initializer_list<std::pair<const char*, const char*>> members) {
    auto writer = TarWriter::create(scratch.file("a.tar")).value();
    for (const auto& [name, data] : members) ASSERT_TRUE(writer.write(name, data));
    ASSERT_TRUE(writer.finish());
  };
  put({{"1.webp", "w"}, {"1.cls", "1"}});
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("1.webp: not a JPEG or PNG"));
  put({{"1.jpg", "j"}, {"1.cls", "1"}, {"1.cls", "2"}});
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("sample 1 has two labels, 1 and 2"));
  put({{"1.jpg", "j"}, {"1.cls", "1"}, {"1.mask.webp", "m"}, {"logo.gif", "g"}});
  EXPECT_THAT(read_all(*open({.directory = scratch.path()})), ElementsAre("j 1"));
  put({{"._1.jpg", "m"}, {"1.jpg", "j"}, {"._1.cls", "m"}, {"1.cls", "1"}});  // of macOS
  EXPECT_THAT(read_all(*open({.directory = scratch.path()})), ElementsAre("j 1"));
  put({{"1.jpg", "j"}, {"2.jpg", "j"}, {"1.cls", "1"}, {"2.cls", "1"}});
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("of the same name, next to it"));
}

TEST(TarImages, MembersOfAnySizeAreNotBelieved) {
  const Scratch scratch;
  auto writer = TarWriter::create(scratch.file("a.tar")).value();
  for (const char* name : {"1.jpg", "1.cls", "2.jpg", "2.cls"}) ASSERT_TRUE(writer.write(name, "1"));
  ASSERT_TRUE(writer.finish());
  // The first image gets a size of 3 GiB, of which the file has nothing but a hole.
  std::string bytes = read_file(scratch.file("a.tar"));
  const std::uint64_t huge = std::uint64_t{3} << 30;
  std::string header = bytes.substr(0, kTarBlock);
  header.replace(124, 11, fmt::format("{:011o}", huge));
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<std::uint8_t>(byte);
  header.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  put_file(scratch.file("a.tar"), header);
  std::filesystem::resize_file(scratch.file("a.tar"), kTarBlock + huge);
  std::ofstream(scratch.file("a.tar"), std::ios::app | std::ios::binary) << bytes.substr(2 * kTarBlock);
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("1.jpg: an image of 3221225472 bytes"));
  const auto source = open({.directory = scratch.path(), .on_error = OnError::kSkip});
  EXPECT_THAT(read_all(*source), ElementsAre("1 1"));
  EXPECT_EQ(source->lost(), 1);
}

TEST(TarImages, MoreArchivesThanFilesMayBeOpen) {
  const Scratch scratch;
  constexpr int kArchives = 300;
  for (int i = 0; i < kArchives; ++i) {
    auto writer = TarWriter::create(scratch.file(fmt::format("{:03}.tar", i))).value();
    ASSERT_TRUE(writer.write("1.jpg", fmt::format("{}", i)));
    ASSERT_TRUE(writer.write("1.cls", "1"));
    ASSERT_TRUE(writer.finish());
  }
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{std::min<rlim_t>(280, before.rlim_max), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  for (const int threads : {1, 4}) {
    const auto source = open({.directory = scratch.path(), .threads = threads});
    const auto records = read_all(*source);
    ASSERT_EQ(records.size(), static_cast<std::size_t>(kArchives));
    for (int i = 0; i < kArchives; ++i) EXPECT_EQ(records[static_cast<std::size_t>(i)], fmt::format("{} 1", i));
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(OpenImageSource, NothingKnownIsUnavailable) {
  const Scratch scratch;
  const Scratch flat;
  put_file(flat.file("1.jpg"), "1");
  EXPECT_THAT(error_of({.directory = flat.path()}).message(), HasSubstr("its images lie in no folder"));
  EXPECT_EQ(error_of({.directory = scratch.path()}).code(), Code::kUnavailable);
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("no data set of images that is known"));
  EXPECT_EQ(error_of({.directory = scratch.file("none")}).code(), Code::kUnavailable);
  for (const SourceFormat format : {SourceFormat::kTfRecord, SourceFormat::kFolder, SourceFormat::kNihChest,
                                    SourceFormat::kIdx, SourceFormat::kTar})
    EXPECT_EQ(error_of({.directory = scratch.path(), .format = format}).code(), Code::kUnavailable)
        << source_format_name(format);
}

// ---- Splits

// A file by itself is one split: its records are not held out from training on it.
TEST(Splits, ASingleFileHasNoOther) {
  const Scratch scratch;
  write_images(scratch.file("a.tfrecord"), 3);
  put_file(scratch.file("a.tar"), "x");
  write_digits(scratch, "train");
  for (const char* name : {"a.tfrecord", "a.tar", "train-images-idx3-ubyte"}) {
    EXPECT_TRUE(has_split({.directory = scratch.file(name)})) << name;
    EXPECT_FALSE(has_split({.directory = scratch.file(name), .training = false})) << name;
  }
  EXPECT_FALSE(has_split({.directory = scratch.path(), .pattern = "*.tfrecord", .training = false}));
  EXPECT_EQ(open({.directory = scratch.file("a.tfrecord"), .training = false})->records(), 3) << "asked for by name";
}

// Names that speak of both splits are of the training one.
TEST(Splits, OfRecordsDoNotOverlap) {
  const Scratch scratch;
  write_images(scratch.file("trainval.tfrecord"), 3);
  EXPECT_FALSE(has_split({.directory = scratch.path(), .training = false}));
  write_images(scratch.file("test.tfrecord"), 2);
  EXPECT_TRUE(has_split({.directory = scratch.path(), .training = false}));
  write_images(scratch.file("val.tfrecord"), 1);
  EXPECT_EQ(open({.directory = scratch.path()})->records(), 3);
  EXPECT_EQ(open({.directory = scratch.path(), .training = false})->records(), 1);
}

TEST(Splits, OfArchivesDoNotOverlap) {
  const Scratch scratch;
  const auto put_archive = [&scratch](const std::string& name, int samples) {
    auto tar = TarWriter::create(scratch.file(name)).value();
    for (int i = 0; i < samples; ++i) {
      ASSERT_TRUE(tar.write(fmt::format("{}.jpg", i), "jpeg"));
      ASSERT_TRUE(tar.write(fmt::format("{}.cls", i), "0"));
    }
    ASSERT_TRUE(tar.finish());
  };
  const auto records = [&scratch](bool training) {
    return open({.directory = scratch.path(), .training = training})->records();
  };
  put_archive("interval.tar", 1);
  EXPECT_EQ(records(true), 1);
  EXPECT_FALSE(has_split({.directory = scratch.path(), .training = false})) << "no word of its name is val";
  put_archive("images_val_0.tar", 2);
  put_archive("val-1.tar", 4);
  EXPECT_EQ(records(true), 1);
  EXPECT_EQ(records(false), 6);
  EXPECT_TRUE(has_split({.directory = scratch.path(), .training = false}));
  put_archive("train-val-0.tar", 8);
  EXPECT_EQ(records(true), 8);
  EXPECT_EQ(records(false), 6);
}

// ---- Files that are no data set

TEST(ForeignFiles, AreCalledByTheirKind) {
  const Scratch scratch;
  put_file(scratch.file("a"), "\xFF\xD8\xFF\xE0 and so on");
  put_file(scratch.file("b.tfrecord"), "PK\x03\x04 and so on");
  EXPECT_THAT(error_of({.directory = scratch.file("a")}).message(),
              testing::AllOf(HasSubstr("a JPEG image, not a file of records"), HasSubstr("a folder for each class")));
  EXPECT_THAT(error_of({.directory = scratch.file("b.tfrecord")}).message(), HasSubstr("a ZIP archive"));
}

}  // namespace
}  // namespace xoe::data
