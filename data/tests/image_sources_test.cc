// Data sets of images in folders, IDX files and tables; what a directory is taken for; splits.
#include "data/source/formats.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/testing/scratch.h"
#include "data/files/foreign_bytes.h"
#include "data/files/tar.h"
#include "data/records/file_index.h"
#include "data/tests/idx_file.h"
#include "data/tests/opened_sources.h"

namespace xoe::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void put_deep(const Scratch& scratch, const std::string& name, std::string_view content) {
  std::filesystem::create_directories(std::filesystem::path(scratch.file(name)).parent_path());
  put_file(scratch.file(name), content);
}

TEST(ImageFolder, ClassesAreFoldersInTheirOrder) {
  const Scratch scratch;
  put_deep(scratch, "dog/b.JPG", "dog b");
  put_deep(scratch, "dog/a.png", "dog a");
  put_deep(scratch, "cat/x.jpeg", "cat x");
  put_deep(scratch, "cat/readme.txt", "no image");
  put_deep(scratch, "cat/.hidden.jpg", "no image");
  EXPECT_EQ(detect_source_format({.directory = scratch.path()}).value(), SourceFormat::kFolder);
  const auto source = opened({.directory = scratch.path()});
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
  const auto source = opened({.directory = scratch.path()});
  EXPECT_THAT(read_all(*source), ElementsAre("cat 9 0", "cat a 3 0", "cat a deep 1 0", "cat b 2 0", "dog x 1 1"));
  EXPECT_EQ(source->classes(), 2);
  EXPECT_TRUE(source->warnings().empty());
  std::filesystem::create_directory_symlink(scratch.file("train/cat"), scratch.file("train/cat/a/round"));
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("more than 32 folders within each other"));
}

// An image anywhere below makes a directory a data set: what is wrong with the rest is said then.
TEST(ImageFolder, IsFoundBehindEmptyAndDeepFolders) {
  const Scratch scratch;
  for (int i = 0; i < 40; ++i) std::filesystem::create_directories(scratch.file(fmt::format("train/class{:02}", i)));
  put_deep(scratch, "train/class40/1.jpg", "1");
  EXPECT_EQ(detect_source_format({.directory = scratch.path()}).value(), SourceFormat::kFolder);
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("class00: a class without images"));
  const auto rest = opened({.directory = scratch.path(), .allow_missing = true});
  EXPECT_THAT(read_all(*rest), ElementsAre("1 40"));
  EXPECT_EQ(rest->missing(), 40);
  const Scratch deep;
  put_deep(deep, "cat/a/b/c/d/e/1.jpg", "1");
  put_deep(deep, "dog/a/b/c/d/e/2.jpg", "2");
  EXPECT_THAT(read_all(*opened({.directory = deep.path()})), ElementsAre("1 0", "2 1"));
  const Scratch round;
  std::filesystem::create_directory(round.file("a"));
  std::filesystem::create_directory_symlink(round.path(), round.file("a/up"));
  EXPECT_EQ(error_of({.directory = round.path()}).code(), Code::kUnavailable) << "the look comes to an end";
}

TEST(ImageFolder, OneLevelTooHighIsSaid) {
  const Scratch scratch;
  put_deep(scratch, "images/cat/1.jpg", "1");
  put_deep(scratch, "images/dog/1.jpg", "2");
  const Error error = error_of({.directory = scratch.path()});
  EXPECT_EQ(error.code(), Code::kInvalidArgument);
  EXPECT_THAT(error.message(), HasSubstr("if those are the classes, open " + scratch.file("images")));
  put_deep(scratch, "images/2.jpg", "3");
  EXPECT_EQ(opened({.directory = scratch.path()})->classes(), 1);
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
  const auto source = opened({.directory = scratch.path()});
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
  EXPECT_THAT(read_all(*opened({.directory = scratch.path()})), ElementsAre("1 0", "2 1"));
  const ImagePipelineOptions validation{.directory = scratch.path(), .training = false};
  EXPECT_THAT(read_all(*opened(validation)), ElementsAre("3 1"));
  put_deep(scratch, "val/emu/1.jpg", "4");
  EXPECT_THAT(error_of(validation).message(), HasSubstr("val/emu: no class of that name"));
}

TEST(ImageFolder, SplitsMayBeginWithCapitals) {
  const Scratch scratch;
  put_deep(scratch, "Train/cat/1.jpg", "1");
  put_deep(scratch, "Train/dog/1.jpg", "2");
  put_deep(scratch, "VAL/dog/1.jpg", "3");
  const ImagePipelineOptions validation{.directory = scratch.path(), .training = false};
  EXPECT_THAT(read_all(*opened({.directory = scratch.path()})), ElementsAre("1 0", "2 1"));
  EXPECT_THAT(read_all(*opened(validation)), ElementsAre("3 1"));
  EXPECT_TRUE(opened(validation)->remarks().empty());
  put_deep(scratch, "test/cat/1.jpg", "4");
  EXPECT_THAT(read_all(*opened(validation)), ElementsAre("3 1"));
  EXPECT_THAT(opened(validation)->remarks(),
              ElementsAre(HasSubstr("images of " + scratch.file("VAL") + "; not of " + scratch.file("test"))));
}

constexpr const char* kChestHead = "Image Index,Finding Labels,Follow-up #,Patient ID\n";

std::string chest_row(const std::string& image, const std::string& findings, const std::string& patient = "58") {
  return image + "," + findings + ",0," + patient + "\n";
}

TEST(NihChest, FindingsBecomeTargets) {
  const Scratch scratch;
  put_file(scratch.file("Data_Entry_2017.csv"), kChestHead + chest_row("a.png", "Cardiomegaly|Hernia") +
                                                    chest_row("b.png", "No Finding") +
                                                    chest_row("c.png", "Atelectasis", "59"));
  put_deep(scratch, "images_001/images/a.png", "A");
  put_deep(scratch, "images_002/images/b.png", "B");
  put_deep(scratch, "images/c.png", "C");
  EXPECT_EQ(detect_source_format({.directory = scratch.path()}).value(), SourceFormat::kNihChest);
  const auto source = opened({.directory = scratch.path()});
  EXPECT_EQ(source->classes(), 14);
  EXPECT_TRUE(source->multi_label());
  EXPECT_THAT(read_all(*source), ElementsAre("A 0 1 0 0 0 0 0 0 0 0 0 0 0 1", "B 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
                                             "C 1 0 0 0 0 0 0 0 0 0 0 0 0 0"));
  EXPECT_EQ(error_of({.directory = scratch.path(), .training = false}).code(), Code::kUnavailable);
  put_file(scratch.file("train_val_list.txt"), "c.png\r\n");
  put_file(scratch.file("test_list.txt"), "a.png\nb.png");
  EXPECT_EQ(opened({.directory = scratch.path()})->records(), 1);
  EXPECT_EQ(opened({.directory = scratch.path(), .training = false})->records(), 2);
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
  const auto source = opened({.directory = scratch.path(), .on_error = OnError::kSkip});
  EXPECT_EQ(source->records(), 1);
  EXPECT_EQ(source->lost(), 3);
  EXPECT_THAT(error_of({.directory = scratch.path(), .on_error = OnError::kSkip, .max_bad = 1}).message(),
              HasSubstr("unknown finding \"Hiccup\""));
  put_file(table, "Image Index,Finding Labels\na.png,No Finding\na.png,Mass\n");
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("line 3: a.png is in a row before, too"));
  put_file(table, "Image Index,Finding Labels\na.png,No Finding\n");
  EXPECT_THAT(opened({.directory = scratch.path()})->warnings(),
              ElementsAre(AllOf(HasSubstr("1 image in no row of the table, left out"), HasSubstr("images/b.png"))));
  put_file(table, "Image,Labels\n");
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("no columns"));
}

// Labels differ between the tables that the NIH published, so which one is read is said.
TEST(NihChest, OfTwoTablesTheLaterIsReadAndNamed) {
  const Scratch scratch;
  put_deep(scratch, "images/a.png", "A");
  put_file(scratch.file("Data_Entry_2017.csv"), kChestHead + chest_row("a.png", "Mass"));
  EXPECT_TRUE(opened({.directory = scratch.path()})->warnings().empty());
  put_file(scratch.file("Data_Entry_2017_v2020.csv"), kChestHead + chest_row("a.png", "Atelectasis"));
  const auto source = opened({.directory = scratch.path()});
  EXPECT_THAT(read_all(*source), ElementsAre("A 1 0 0 0 0 0 0 0 0 0 0 0 0 0"));
  EXPECT_THAT(source->warnings(), ElementsAre(AllOf(HasSubstr("Data_Entry_2017_v2020.csv is read"),
                                                    HasSubstr("Data_Entry_2017.csv is not, because"))));
  // Nothing tells which of others is meant.
  put_file(scratch.file("Data_Entry_2017_mine.csv"), kChestHead + chest_row("a.png", "Hernia"));
  const Error error = error_of({.directory = scratch.path()});
  EXPECT_EQ(error.code(), Code::kInvalidArgument);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("3 tables, which may differ: Data_Entry_2017.csv, "
                                               "Data_Entry_2017_mine.csv, Data_Entry_2017_v2020.csv"),
                                     HasSubstr("move all but the one")));
}

// Images 0.png to (images - 1).png, two of each patient; the last four are in test_list.txt.
void write_patients(const Scratch& scratch, int images) {
  std::string table = kChestHead;
  std::string train_val;
  std::string test;
  for (int i = 0; i < images; ++i) {
    const std::string name = std::to_string(i) + ".png";
    put_deep(scratch, "images/" + name, name);
    table += chest_row(name, "Mass", std::to_string(i / 2));
    (i < images - 4 ? train_val : test) += name + "\n";
  }
  put_file(scratch.file("Data_Entry_2017.csv"), table);
  put_file(scratch.file("train_val_list.txt"), train_val);
  put_file(scratch.file("test_list.txt"), test);
}

std::vector<int> numbers_of(const ImagePipelineOptions& options) {
  const auto source = opened(options);
  std::vector<int> numbers;
  for (std::int64_t i = 0; i < source->records(); ++i) {
    const std::string name = source->name(i);
    numbers.push_back(std::stoi(name.substr(name.rfind('/') + 1)));
  }
  return numbers;
}

TEST(NihChest, ValidationHoldsOutWholePatients) {
  const Scratch scratch;
  constexpr int kImages = 404;
  write_patients(scratch, kImages);
  const ImagePipelineOptions options{.directory = scratch.path(), .validation_share = 0.25};
  auto with = [&](Split split) {
    ImagePipelineOptions one = options;
    one.split = split;
    return numbers_of(one);
  };
  const std::vector<int> training = with(Split::kTrain);
  const std::vector<int> validation = with(Split::kValidation);
  EXPECT_THAT(with(Split::kTest), ElementsAre(400, 401, 402, 403));
  EXPECT_EQ(training.size() + validation.size(), 400U);
  EXPECT_NEAR(static_cast<double>(validation.size()), 100, 35);  // four deviations of 200 draws, in pairs
  std::set<int> patients;
  for (const int number : validation) patients.insert(number / 2);
  EXPECT_EQ(2 * patients.size(), validation.size());
  for (const int number : training) EXPECT_FALSE(patients.contains(number / 2));
  // A larger share holds out those patients and more.
  ImagePipelineOptions more = options;
  more.training = false;
  more.validation_share = 0.5;
  const std::vector<int> larger = numbers_of(more);
  EXPECT_TRUE(std::includes(larger.begin(), larger.end(), validation.begin(), validation.end()));
  more.validation_share = 1e-9;
  EXPECT_THAT(error_of(more).message(), HasSubstr("holds out no patient"));
  more.validation_share = 1;
  EXPECT_EQ(error_of(more).code(), Code::kInvalidArgument);
  // Without a share the lists are the two splits.
  more.validation_share = 0;
  EXPECT_THAT(numbers_of(more), ElementsAre(400, 401, 402, 403));
  EXPECT_EQ(numbers_of({.directory = scratch.path()}).size(), 400U);
}

TEST(NihChest, APatientInBothListsIsBad) {
  const Scratch scratch;
  write_patients(scratch, 20);
  put_file(scratch.file("test_list.txt"), "15.png\n16.png\n17.png\n18.png\n19.png\n");
  put_file(scratch.file("train_val_list.txt"), "0.png\n1.png\n14.png\n");
  const std::string problem = "patient 7 is in train_val_list.txt (14.png) and in test_list.txt (15.png)";
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr(problem));
  EXPECT_THAT(error_of({.directory = scratch.path(), .training = false, .validation_share = 0.5}).message(),
              HasSubstr(problem));
  // Left out of training, not of the test.
  const ImagePipelineOptions lenient{.directory = scratch.path(), .max_bad = 1};
  EXPECT_THAT(numbers_of(lenient), ElementsAre(0, 1));
  EXPECT_EQ(opened(lenient)->lost(), 1);
  EXPECT_THAT(numbers_of({.directory = scratch.path(), .training = false}), ElementsAre(15, 16, 17, 18, 19));
  // An image in both lists is a patient in both lists.
  put_file(scratch.file("train_val_list.txt"), "0.png\n16.png\n");
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("patient 8 is in"));
}

TEST(NihChest, PatientsNeedTheirColumn) {
  const Scratch scratch;
  put_deep(scratch, "images/a.png", "A");
  put_file(scratch.file("Data_Entry_2017.csv"), "Image Index,Finding Labels\na.png,No Finding\n");
  EXPECT_EQ(opened({.directory = scratch.path()})->records(), 1);
  EXPECT_THAT(error_of({.directory = scratch.path(), .validation_share = 0.1}).message(),
              HasSubstr("no column \"Patient ID\""));
  put_file(scratch.file("Data_Entry_2017.csv"), kChestHead + std::string("a.png,No Finding\n"));
  EXPECT_THAT(error_of({.directory = scratch.path(), .validation_share = 0.1}).message(), HasSubstr("no patient"));
}

TEST(NihChest, OtherFormatsHaveNoPatients) {
  const Scratch scratch;
  put_deep(scratch, "train/cat/1.jpg", "1");
  EXPECT_THAT(error_of({.directory = scratch.path(), .validation_share = 0.1}).message(),
              HasSubstr("validation_share is for the patients of ChestX-ray14, not for folder"));
  EXPECT_THAT(error_of({.directory = scratch.path(), .split = Split::kTest}).message(),
              HasSubstr("only ChestX-ray14 has the split test"));
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
    const auto source = opened({.directory = scratch.path(), .training = training});
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
  const auto source = opened({.directory = scratch.path()});
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
  EXPECT_EQ(opened({.directory = scratch.file("a.tfrecord"), .training = false})->records(), 3) << "asked for by name";
}

// Names that speak of both splits are of the training one.
TEST(Splits, OfRecordsDoNotOverlap) {
  const Scratch scratch;
  write_images(scratch.file("trainval.tfrecord"), 3);
  EXPECT_FALSE(has_split({.directory = scratch.path(), .training = false}));
  write_images(scratch.file("test.tfrecord"), 2);
  EXPECT_TRUE(has_split({.directory = scratch.path(), .training = false}));
  write_images(scratch.file("val.tfrecord"), 1);
  EXPECT_EQ(opened({.directory = scratch.path()})->records(), 3);
  EXPECT_EQ(opened({.directory = scratch.path(), .training = false})->records(), 1);
}

// The names of Kaggle's files and of TensorFlow's models.
TEST(Splits, OfRecordsOfOtherEndings) {
  for (const char* ending : {".tfrec", ".record", ".records", ".record-00000-of-00001"}) {
    const Scratch scratch;
    write_images(scratch.file(fmt::format("00-32{}", ending)), 2);
    EXPECT_EQ(opened({.directory = scratch.path()})->records(), 2) << ending;
    EXPECT_FALSE(has_split({.directory = scratch.path(), .training = false})) << ending;
    write_images(scratch.file(fmt::format("coco_train{}", ending)), 3);
    write_images(scratch.file(fmt::format("coco_val{}", ending)), 4);
    EXPECT_EQ(opened({.directory = scratch.path()})->records(), 3) << ending;
    EXPECT_EQ(opened({.directory = scratch.path(), .training = false})->records(), 4) << ending;
  }
  const Scratch scratch;
  write_images(scratch.file("part-0"), 2);
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(),
              HasSubstr("the option pattern (--pattern) names them"));
  EXPECT_EQ(opened({.directory = scratch.path(), .pattern = "part-*"})->records(), 2);
}

void put_archive(const Scratch& scratch, const std::string& name, int samples) {
  auto tar = TarWriter::create(scratch.file(name)).value();
  for (int i = 0; i < samples; ++i) {
    ASSERT_TRUE(tar.write(fmt::format("{}.jpg", i), "jpeg"));
    ASSERT_TRUE(tar.write(fmt::format("{}.cls", i), "0"));
  }
  ASSERT_TRUE(tar.finish());
}

// Records are not lost without a word where a folder has two kinds of names.
TEST(Splits, FilesOfRecordsThatNoSplitTakesAreNamed) {
  const Scratch mixed;
  for (const char* name : {"a.tfrec", "b.record", "c.tfrecord"}) write_images(mixed.file(name), 2);
  EXPECT_EQ(opened({.directory = mixed.path()})->records(), 6);
  EXPECT_THAT(opened({.directory = mixed.path()})->warnings(), IsEmpty());
  const Scratch scratch;
  write_images(scratch.file("train-00000-of-00001"), 2);
  write_images(scratch.file("validation-00000-of-00001"), 1);
  write_images(scratch.file("test.tfrecord"), 1);
  EXPECT_THAT(opened({.directory = scratch.path()})->warnings(), IsEmpty());
  EXPECT_THAT(opened({.directory = scratch.path(), .training = false})->warnings(), IsEmpty());
  write_images(scratch.file("flowers.tfrec"), 2);
  const auto source = opened({.directory = scratch.path()});
  EXPECT_EQ(source->records(), 2);
  EXPECT_THAT(source->warnings(), ElementsAre(HasSubstr("1 file left out, whose names are not like those")));
  EXPECT_THAT(source->warnings().front(), HasSubstr("flowers.tfrec"));
  EXPECT_THAT(opened({.directory = scratch.path(), .pattern = "train-*"})->warnings(), IsEmpty());
}

// Names of other tools say nothing, but the first bytes do.
TEST(Splits, FilesOfRecordsAreKnownByTheirBytes) {
  for (const char* name : {"part-r-00000", "data-00000-of-00001", "TRAIN-00000-of-00001", "more.gz"}) {
    const Scratch scratch;
    write_images(scratch.file("train-00000-of-00001"), 2);
    std::ofstream(scratch.file("readme.txt")) << "Twelve bytes and more of text.\n";
    std::ofstream(scratch.file("labels")) << "";
    EXPECT_THAT(opened({.directory = scratch.path()})->warnings(), IsEmpty());
    const bool compressed = std::string_view(name).ends_with(".gz");
    write_images(scratch.file(name), 2, compressed ? Compression::kGzip : Compression::kNone);
    const auto source = opened({.directory = scratch.path()});
    EXPECT_EQ(source->records(), 2);
    EXPECT_THAT(source->warnings(),
                ElementsAre(AllOf(HasSubstr("1 file left out, whose names are not like those"), HasSubstr(name))));
  }
}

TEST(Splits, TwoDivisionsAreNamed) {
  const Scratch scratch;
  for (int shard = 0; shard < 2; ++shard) write_images(scratch.file(fmt::format("train-0000{}-of-00002", shard)), 2);
  EXPECT_THAT(opened({.directory = scratch.path()})->warnings(), IsEmpty());
  for (int shard = 0; shard < 4; ++shard) write_images(scratch.file(fmt::format("train-0000{}-of-00004", shard)), 1);
  const auto source = opened({.directory = scratch.path()});
  EXPECT_EQ(source->records(), 8);
  EXPECT_THAT(source->warnings(),
              ElementsAre(HasSubstr("2 files are train-*-of-00002, and 4 train-*-of-00004; where")));
}

TEST(Splits, ArchivesThatNoSplitTakesAreNamed) {
  const Scratch scratch;
  for (const char* name : {"train-0.tar", "val-0.tar", "test-0.tar"}) put_archive(scratch, name, 1);
  EXPECT_THAT(opened({.directory = scratch.path()})->warnings(), IsEmpty());
  EXPECT_THAT(opened({.directory = scratch.path(), .training = false})->warnings(), IsEmpty());
  put_archive(scratch, "part-0.tar", 1);
  EXPECT_THAT(opened({.directory = scratch.path()})->warnings(), ElementsAre(HasSubstr("part-0.tar")));
}

TEST(Splits, OfArchivesDoNotOverlap) {
  const Scratch scratch;
  const auto records = [&scratch](bool training) {
    return opened({.directory = scratch.path(), .training = training})->records();
  };
  put_archive(scratch, "interval.tar", 1);
  EXPECT_EQ(records(true), 1);
  EXPECT_FALSE(has_split({.directory = scratch.path(), .training = false})) << "no word of its name is val";
  put_archive(scratch, "images_val_0.tar", 2);
  put_archive(scratch, "val-1.tar", 4);
  EXPECT_EQ(records(true), 1);
  EXPECT_EQ(records(false), 6);
  EXPECT_TRUE(has_split({.directory = scratch.path(), .training = false}));
  put_archive(scratch, "train-val-0.tar", 8);
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

constexpr const char* kLfsPointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

// A clone without Git LFS has pointers in the place of all large files.
TEST(ForeignFiles, PointersOfGitLfsAreNamedInEveryFormat) {
  const Scratch records;
  put_file(records.file("train-00000-of-00001"), kLfsPointer);
  const Scratch archives;
  put_file(archives.file("train-0.tar"), kLfsPointer);
  const Scratch long_archives;
  put_file(long_archives.file("train-0.tar"), kLfsPointer + std::string(600, ' '));
  const Scratch digits;
  put_file(digits.file("train-images-idx3-ubyte"), kLfsPointer);
  put_file(digits.file("train-labels-idx1-ubyte"), kLfsPointer);
  for (const Scratch* scratch : {&records, &archives, &long_archives, &digits})
    EXPECT_THAT(error_of({.directory = scratch->path()}).message(),
                HasSubstr("a pointer of Git LFS, which stands for"));
  EXPECT_THAT(error_of({.directory = records.file("train-00000-of-00001")}).message(),
              HasSubstr("a pointer of Git LFS, which stands for the file until `git lfs pull` fetches it"));
  write_images(records.file("train-00001-of-00002"), 2);
  std::filesystem::rename(records.file("train-00000-of-00001"), records.file("train-00000-of-00002"));
  LeftOut left_out;
  ASSERT_TRUE(open_image_source({.directory = records.path(), .max_bad = 1}, &left_out));
  EXPECT_THAT(left_out.bad.first(), HasSubstr("the first ones are those of a pointer of Git LFS"));
}

TEST(ForeignFiles, BytesOfOtherImagesAreCalledByTheirKind) {
  using namespace std::string_literals;
  const std::pair<std::string, const char*> kinds[] = {
      {kLfsPointer, "a pointer of Git LFS"},
      {"<!DOCTYPE html><html>", "an HTML page"},
      {"\n <HTML><body>404", "an HTML page"},
      {"<!doctype html>", "an HTML page"},
      {"BM\x46\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x02\0\0\0"s, "a BMP image"},
      {"GIF89a\x01\0\x01\0"s, "a GIF image"},
      {"RIFF\x24\0\0\0WEBPVP8 "s, "a WebP image"},
      {"II*\0\x08\0\0\0\0\0"s, "a TIFF image"},
      {"\0\0\0\x1c"
       "ftypavif\0\0\0\0"s,
       "an AVIF image"},
      {"\0\0\0\x1c"
       "ftypheic\0\0\0\0"s,
       "a HEIC image"},
      {"<?xml version=\"1.0\"?><svg/>", "an XML text"},
      {"{\"error\": \"not found\"}", "a text"},
      {std::string(128, '\x01') + "DICM", "a DICOM file"},
      {std::string(500, '\0'), "zeros, as a file has whose content was never written"},
  };
  for (const auto& [bytes, kind] : kinds) {
    const std::string text = describe_no_image(bytes);
    EXPECT_THAT(text, HasSubstr(fmt::format("{} bytes that are neither JPEG nor PNG, but {}", bytes.size(), kind)));
  }
  EXPECT_EQ(describe_no_image("\x01\x02\x03"), "3 bytes that are neither JPEG nor PNG");
  EXPECT_EQ(describe_no_image(""), "0 bytes that are neither JPEG nor PNG");
  // What may begin an archive or an idx file is none of them.
  for (const std::string& bytes :
       {"BM12\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"s, "\0\0\x08\x03\0\0\0\x01"s, "readme.txt\0\0"s})
    EXPECT_EQ(foreign_kind_of(bytes), "");
}

// The pipeline, which decodes, says it with the path.
TEST(ForeignFiles, AnImageThatIsNoneIsNamedByThePipeline) {
  const Scratch scratch;
  put_deep(scratch, "cat/1.jpeg", kLfsPointer);
  put_deep(scratch, "dog/1.jpeg", kLfsPointer);
  auto images = open_images({.directory = scratch.path(), .batch = 2, .image_size = 8, .threads = 0});
  ASSERT_TRUE(images) << images.error().message();
  const auto batch = (*images)->next();
  ASSERT_FALSE(batch);
  EXPECT_THAT(batch.error().message(), AllOf(HasSubstr("/1.jpeg"), HasSubstr("but a pointer of Git LFS")));
}

}  // namespace
}  // namespace xoe::data
