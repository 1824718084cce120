// xoe data verify, stats, index, inspect and make of other formats.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/files/tar.h"
#include "data/records/example.h"
#include "data/tests/record_extents.h"
#include "data/tests/run_data.h"
#include "xoe/data/example.h"
#include "xoe/data/record_writer.h"
#include "xoe/data/records.h"

namespace xoe::data {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

Json verified(std::vector<std::string> arguments, int code) {
  arguments.insert(arguments.begin(), {"verify", "--json"});
  const Ended ended = run(arguments);
  EXPECT_EQ(ended.code, code) << ended.error;
  return Json::parse(ended.out);
}

void flip(const std::string& path, std::size_t at) {
  std::string bytes = read_file(path);
  bytes[at] = static_cast<char>(bytes[at] ^ 4);
  put_file(path, bytes);
}
void truncate_file(const std::string& path, std::size_t bytes) { put_file(path, read_file(path).substr(0, bytes)); }

class Verbs : public ::testing::Test {
 protected:
  void make(std::string_view format = "tfrecord") {
    auto arguments = make_arguments(set_);
    arguments.insert(arguments.end(), {"--format", std::string(format)});
    const Ended made = run(arguments);
    ASSERT_EQ(made.code, 0) << made.error;
  }
  std::string file(std::string_view name) const { return scratch_.file(name); }

  Scratch scratch_;
  std::string set_ = scratch_.file("set");
};

TEST_F(Verbs, EveryFormatThatIsMadeIsRight) {
  for (const char* format : {"tfrecord", "folder", "tar", "nih"}) {
    set_ = file(format);
    make(format);
    const Json report = verified({"--decode", set_}, 0);
    EXPECT_EQ(report["records"], 49) << format;
    EXPECT_EQ(report["bad"], 0) << format;
    const Ended inspected = run({"inspect", set_, "--json"});
    ASSERT_EQ(inspected.code, 0) << inspected.error;
    EXPECT_EQ(Json::parse(inspected.out)["records"], 40) << format;
    const Ended again = run({"make", "--format", format, set_});
    EXPECT_EQ(again.code, 2) << format;
  }
}

TEST_F(Verbs, WholeNumbersAreDecimal) {
  const Ended made = run({"make", "--images", "010", "--validation", "08", "--classes", "02", "--json", set_});
  ASSERT_EQ(made.code, 0) << made.error;
  EXPECT_EQ(verified({set_}, 0)["records"], 18);
}

TEST_F(Verbs, VerifyNamesEachDamagedRecord) {
  make();
  const std::string path = set_ + "/train-00000-of-00002";
  const auto places = extents_of(path);
  flip(path, places[3].offset + 100);
  flip(path, places[5].offset + 9);  // the CRC of a length
  const std::string other = set_ + "/train-00001-of-00002";
  truncate_file(other, std::filesystem::file_size(other) - 7);
  const Json report = verified({set_}, 1);
  EXPECT_EQ(report["bad"], 3);
  EXPECT_EQ(report["files"], 3);
  const Json& findings = report["findings"];
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0]["record"], 3);
  EXPECT_EQ(findings[0]["offset"], places[3].offset);
  EXPECT_EQ(findings[0]["file"], path);
  EXPECT_EQ(findings[1]["record"], 5);
  EXPECT_EQ(findings[1]["offset"], places[5].offset);
  EXPECT_EQ(findings[2]["file"], other);
  EXPECT_EQ(findings[2]["record"], 19);
  EXPECT_THAT(findings[2]["problem"].get<std::string>(), HasSubstr("truncated"));
  EXPECT_EQ(report["records"], 47) << "the rest of a record is none, nor is what has no right length";
  EXPECT_EQ(verified({set_, "--first", "--threads", "1"}, 1)["bad"], 1);
  const Ended text = run({"verify", set_});
  EXPECT_EQ(text.code, 1);
  EXPECT_THAT(text.out, HasSubstr("bad " + path + ": record 3 at byte"));
  EXPECT_THAT(text.out, HasSubstr("3 bad"));
}

TEST_F(Verbs, VerifyReadsCompressedFilesAndListsAHundred) {
  auto writer = RecordWriter::create(file("train-0"), Compression::kGzip).value();
  for (int i = 0; i < 250; ++i) ASSERT_TRUE(writer.write(i % 2 == 0 ? "no example" : ""));
  ASSERT_TRUE(writer.finish());
  const Json report = verified({file("train-0")}, 1);
  EXPECT_EQ(report["records"], 250);
  EXPECT_EQ(report["bad"], 125);
  ASSERT_EQ(report["findings"].size(), 100U);
  EXPECT_EQ(report["findings"][99]["record"], 198);
  truncate_file(file("train-0"), std::filesystem::file_size(file("train-0")) - 12);
  EXPECT_GE(verified({file("train-0")}, 1)["bad"], 1);
}

TEST_F(Verbs, OnlyDecodingFindsBrokenPixels) {
  make("folder");
  const std::string path = set_ + "/train/disc-plain-0/train_00000000.jpg";
  truncate_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_EQ(verified({set_}, 0)["bad"], 0);
  const Json report = verified({set_, "--decode"}, 1);
  EXPECT_EQ(report["bad"], 1);
  EXPECT_EQ(report["findings"][0]["file"], path);
  put_file(path, "nothing");
  EXPECT_EQ(verified({set_}, 1)["bad"], 1);
}

TEST_F(Verbs, VerifyFindsAPatientInTwoSplits) {
  make("nih");
  EXPECT_EQ(verified({set_}, 0)["bad"], 0);
  const std::string list = set_ + "/train_val_list.txt";
  const std::string test = read_file(set_ + "/test_list.txt");
  put_file(list, read_file(list) + test.substr(0, test.find('\n') + 1));
  const Json report = verified({set_}, 1);
  EXPECT_EQ(report["bad"], 1);
  EXPECT_THAT(report["findings"][0]["problem"].get<std::string>(),
              testing::ContainsRegex("patient [0-9]+ is in train_val_list.txt .* and in test_list.txt"));
}

TEST_F(Verbs, VerifyFindsWhatOtherFormatsLack) {
  make("nih");
  std::filesystem::remove(set_ + "/images_001/images/00000002_001.png");
  const Json chest = verified({set_}, 1);
  EXPECT_EQ(chest["bad"], 1);
  EXPECT_THAT(chest["findings"][0]["problem"].get<std::string>(), HasSubstr("00000002_001.png"));

  auto tar = TarWriter::create(file("train.tar")).value();
  const std::string image = read_file(set_ + "/images_001/images/00000001_000.png");
  for (const char* key : {"a", "b", "c"}) {
    ASSERT_TRUE(tar.write(std::string(key) + ".png", image));
    ASSERT_TRUE(tar.write(std::string(key) + ".cls", "1"));
  }
  ASSERT_TRUE(tar.finish());
  EXPECT_EQ(verified({file("train.tar"), "--decode"}, 0)["records"], 3);
  flip(file("train.tar"), 150);  // in the first header's checksum
  EXPECT_GE(verified({file("train.tar")}, 1)["bad"], 1);

  put_file(file("train-images-idx3-ubyte"), std::string("\0\0\x08\x03\0\0\0\2\0\0\0\2\0\0\0\2", 16) + "1234567");
  put_file(file("train-labels-idx1-ubyte"), std::string("\0\0\x08\x01\0\0\0\2\0\1", 10));
  EXPECT_EQ(verified({file("train-images-idx3-ubyte")}, 1)["bad"], 1);
  const Ended none = run({"verify", file("none")});
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.error, "xoe data verify: " + file("none") + ": there is no such file or folder\n");
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(run({"verify"}).code, 2);
}

TEST_F(Verbs, FilesThatAFolderLeavesOutAreTold) {
  make("folder");
  const std::string folder = set_ + "/train/disc-plain-0/";
  std::filesystem::create_directory(folder + "more");
  std::filesystem::copy(folder + "train_00000000.jpg", folder + "more");
  put_file(folder + ".hidden.jpg", "?");
  put_file(folder + "notes.txt", "?");
  Json report = verified({set_}, 0);
  EXPECT_EQ(report["records"], 50);
  EXPECT_THAT(report["notes"].dump(), HasSubstr("1 hidden file left out"));
  EXPECT_THAT(report["notes"].dump(), HasSubstr("notes.txt"));
  EXPECT_THAT(run({"verify", set_}).out, HasSubstr("note " + set_ + "/train: 1 hidden file"));
  EXPECT_THAT(run({"stats", set_}).out, HasSubstr("1 hidden file left out"));
  // Files of one name in one class keep their images, under other names.
  ASSERT_EQ(run({"convert", set_, file("copy"), "--to", "folder"}).code, 0);
  EXPECT_EQ(verified({file("copy")}, 0)["records"], 41);
  put_file(folder + "image.webp", "?");
  report = verified({set_}, 1);
  EXPECT_EQ(report["bad"], 1);
  EXPECT_THAT(report["findings"][0]["problem"].get<std::string>(), HasSubstr("image.webp"));
}

// JSON's strings are UTF-8, names of folders are any bytes: the escaped ones are listed, and say which bytes they were.
TEST_F(Verbs, NamesThatAreNotUtf8SurviveInJson) {
  make("folder");
  const std::string train = set_ + "/train/";
  const std::string latin = "caf\xe9\\x";
  std::vector<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(train)) folders.push_back(entry.path());
  ASSERT_EQ(folders.size(), 5U);
  std::filesystem::rename(folders[0], train + latin);
  std::filesystem::rename(folders[1], train + "a\\xe9");  // UTF-8, though it looks like an escape
  put_file(train + latin + "/\xff.jpg", "?");
  const Ended ended = run({"stats", set_, "--json"});
  ASSERT_EQ(ended.code, 0) << ended.error;
  const Json stats = Json::parse(ended.out);
  std::vector<std::string> names;
  for (const Json& one : stats["per_class"]) names.push_back(one["name"]);
  EXPECT_EQ(names[0], "a\\xe9");
  EXPECT_EQ(names[1], R"(caf\xe9\\x)");
  EXPECT_THAT(stats["bad_images"][0].get<std::string>(), HasSubstr(R"(caf\xe9\\x/\xff.jpg: )"));
  EXPECT_EQ(stats["escaped"], Json::parse(R"(["/bad_images/0", "/per_class/1/name", "/first_bad"])"));
  const Ended inspected = run({"inspect", set_, "--json"});
  EXPECT_EQ(Json::parse(inspected.out)["class_names"][1], R"(caf\xe9\\x)");
  const Ended failed = run({"stats", file("\xfe"), "--json"});
  EXPECT_THAT(Json::parse(failed.out)["error"].get<std::string>(), HasSubstr(R"(/\xfe: )"));
  std::filesystem::remove(train + latin + "/\xff.jpg");
  std::filesystem::rename(train + latin, folders[0]);
  EXPECT_FALSE(Json::parse(run({"stats", set_, "--json"}).out).contains("escaped"));
}

TEST_F(Verbs, StatsOfNothingReadableFail) {
  std::filesystem::create_directories(set_ + "/train/a");
  put_file(set_ + "/train/a/1.jpg", "nothing");
  put_file(set_ + "/train/a/2.jpg", "nothing either");
  const Ended ended = run({"stats", set_});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.error, HasSubstr("no image can be read"));
}

TEST_F(Verbs, StatsCountsClassesSizesAndKinds) {
  make();
  const Ended ended = run({"stats", set_, "--json", "--sample", "10"});
  ASSERT_EQ(ended.code, 0) << ended.error;
  const Json stats = Json::parse(ended.out);
  EXPECT_EQ(stats["images"], 40);
  EXPECT_EQ(stats["classes"], 5);
  EXPECT_EQ(stats["sampled"], 10);
  for (const Json& one : stats["per_class"]) EXPECT_EQ(one["images"], 8);
  EXPECT_GE(stats["width"]["min"], 32);
  EXPECT_LE(stats["width"]["max"], 48);
  int images = 0;
  for (const auto& [kind, count] : stats["formats"].items()) images += count.get<int>();
  EXPECT_EQ(images, 40);
  EXPECT_GT(stats["mean"][0], 0.1);
  EXPECT_GT(stats["deviation"][0], 0.05);
  const Ended text = run({"stats", set_, "--split", "validation"});
  EXPECT_THAT(text.out, HasSubstr("9 images"));
  EXPECT_THAT(text.out, HasSubstr("disc-plain-0"));
}

// A picture of one level has that mean and no deviation.
TEST_F(Verbs, StatsMeasuresLevels) {
  put_file(file("train-images-idx3-ubyte"), std::string("\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\2\x33\x33\x33\x33", 20));
  put_file(file("train-labels-idx1-ubyte"), std::string("\0\0\x08\x01\0\0\0\2\0\1", 10));
  const Json stats = Json::parse(run({"stats", scratch_.path(), "--json"}).out);
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(stats["mean"][c].get<double>(), 0.2, 1e-9);
  EXPECT_NEAR(stats["deviation"][1].get<double>(), 0, 1e-6);
}

TEST_F(Verbs, StatsTellsPrevalence) {
  ASSERT_EQ(run({"make", "--format", "nih", "--images", "200", "--side", "32", set_}).code, 0);
  const Json stats = Json::parse(run({"stats", set_, "--json", "--sample", "0"}).out);
  EXPECT_TRUE(stats["multi_label"].get<bool>());
  EXPECT_EQ(stats["classes"], 14);
  EXPECT_EQ(stats["sampled"], 0);
  int findings = 0;
  for (const Json& one : stats["per_class"]) findings += one["images"].get<int>();
  EXPECT_GT(findings + stats["images_without_class"].get<int>(), 200);
}

TEST_F(Verbs, IndexIsWrittenCheckedAndUsed) {
  make();
  const auto states = [&](std::vector<std::string> arguments, int code) {
    arguments.insert(arguments.begin(), {"index", "--json"});
    arguments.push_back(set_);
    const Ended ended = run(arguments);
    EXPECT_EQ(ended.code, code) << ended.error;
    std::vector<std::string> all;
    const Json report = Json::parse(ended.out);
    for (const Json& one : report["files"]) all.push_back(one["state"]);
    return all;
  };
  using States = std::vector<std::string>;
  EXPECT_EQ(states({"--check"}, 1), (States{"missing", "missing", "missing"}));
  EXPECT_EQ(states({}, 0), (States{"written", "written", "written"}));
  EXPECT_EQ(states({"--check"}, 0), (States{"fresh", "fresh", "fresh"}));
  EXPECT_EQ(states({}, 0), (States{"fresh", "fresh", "fresh"}));
  EXPECT_EQ(states({"--force"}, 0), (States{"written", "written", "written"}));
  auto writer = RecordWriter::create(set_ + "/train-00000-of-00002").value();
  ASSERT_TRUE(writer.write("another"));
  ASSERT_TRUE(writer.finish());
  flip(set_ + "/train-00001-of-00002.xoeindex", 40);
  EXPECT_EQ(states({"--check"}, 1), (States{"stale", "damaged", "fresh"}));
  EXPECT_EQ(states({}, 0), (States{"written", "written", "fresh"}));
  truncate_file(set_ + "/train-00000-of-00002", 10);
  EXPECT_EQ(states({}, 1), (States{"failed", "fresh", "fresh"}));
  EXPECT_EQ(run({"index", file("none")}).code, 1);
}

// Labels from 0 are read where that is said, by every verb that reads labels.
TEST_F(Verbs, LabelsFromZeroAreAskedFor) {
  make();
  std::filesystem::create_directory(file("zero"));
  auto writer = RecordWriter::create(file("zero/train-0")).value();
  auto records = read_records(set_ + "/train-00000-of-00002")->iterate(0).value();
  for (std::int64_t i = 0; i < 4; ++i)
    ASSERT_TRUE(writer.write(
        make_image_example({.encoded = parse_image_labels(records->next().value()->data)->encoded, .label = i ^ 1})));
  ASSERT_TRUE(writer.finish());
  const std::vector<std::vector<std::string>> verbs = {
      {"stats", file("zero")},
      {"bench", file("zero"), "--batch", "4", "--image-size", "16", "--seconds", "0.01", "--warmup", "0"},
      {"compare", file("zero"), "--ranks", "1", "--batch", "4", "--image-size", "16", "--seconds", "0.01", "--warmup",
       "0"},
      {"convert", file("zero"), file("converted")},
      {"convert", file("zero"), file("folder"), "--format", "folder"},
      {"convert", file("zero"), file("parts"), "--shards", "4"}};
  for (std::vector<std::string> verb : verbs) {
    const Ended asked = run(verb);
    EXPECT_NE(asked.code, 0) << verb[0];
    EXPECT_THAT(asked.error, HasSubstr("--label-offset")) << verb[0];
    verb.insert(verb.end(), {"--label-offset", "0"});
    const Ended told = run(verb);
    EXPECT_EQ(told.code, 0) << verb[0] << ": " << told.error;
  }
  EXPECT_EQ(Json::parse(run({"stats", file("converted"), "--json"}).out)["classes"], 4);
  const Json shown = Json::parse(run({"inspect", file("zero"), "--json", "--label-offset", "0"}).out);
  EXPECT_EQ(shown["first"][0]["class"], 1);
}

// Labels from 0 without class 0, as a part of a data set may be.
TEST_F(Verbs, LabelsThatMayCountFromZeroAreTold) {
  make();
  std::filesystem::create_directory(file("some"));
  auto writer = RecordWriter::create(file("some/train-0")).value();
  auto records = read_records(set_ + "/train-00000-of-00002")->iterate(0).value();
  for (const std::int64_t label : {1, 1, 3, 19})
    ASSERT_TRUE(writer.write(
        make_image_example({.encoded = parse_image_labels(records->next().value()->data)->encoded, .label = label})));
  ASSERT_TRUE(writer.finish());
  const auto told = AllOf(HasSubstr("to count from 1"), HasSubstr("all 4 records were looked at, with labels 1 to 19"),
                          HasSubstr("(--label-offset)"));
  const Ended text = run({"stats", file("some")});
  EXPECT_THAT(text.out, AllOf(told, HasSubstr("19 classes (3 distinct labels)")));
  const Json stats = Json::parse(run({"stats", file("some"), "--json"}).out);
  EXPECT_EQ(stats["classes"], 19);
  EXPECT_EQ(stats["distinct_labels"], 3);
  const std::vector<std::string> bench = {"bench", file("some"), "--batch", "4",        "--image-size",
                                          "16",    "--seconds",  "0.01",    "--warmup", "0"};
  const std::vector<std::string> convert = {"convert", file("some"), file("converted")};
  for (std::vector<std::string> verb : {bench, convert}) {
    EXPECT_THAT(run(verb).error, told) << verb[0];
    verb.insert(verb.end(), {"--label-offset", "0"});
    if (verb[0] == "convert") verb[2] = file("converted-too");
    EXPECT_THAT(run(verb).error, Not(HasSubstr("to count from"))) << verb[0];
  }
  // What convert writes names its classes.
  EXPECT_THAT(run({"stats", file("converted")}).out, Not(HasSubstr("to count from")));
  EXPECT_THAT(run({"stats", set_}).out, Not(HasSubstr("to count from")));
}

TEST_F(Verbs, CompareSaysWhatIsWrongAndWhere) {
  const auto compare = [](const std::string& directory, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"compare", directory, "--ranks", "1", "--batch", "4", "--image-size", "16", "--seconds",
                               "0.01", "--warmup", "0", "--step-ms", "1"});
    return run(more);
  };
  make();
  const std::string path = set_ + "/train-00000-of-00002";
  flip(path, extents_of(path)[0].offset + 100);  // the first, which comes before any batch
  const Ended bad = compare(set_);
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.error, HasSubstr(path + ": record 0 at byte 0"));
  EXPECT_EQ(compare(set_, {"--max-bad", "1"}).code, 0);

  put_file(set_ + "/devkit.tar.gz", "an archive beside the records");
  EXPECT_EQ(compare(set_, {"--max-bad", "1"}).code, 0);

  put_file(path, read_file(set_ + "/train-00001-of-00002"));
  std::filesystem::remove(set_ + "/train-00001-of-00002");
  const Ended missing = compare(set_);
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.error, AllOf(HasSubstr("train-00001-of-00002: absent"), HasSubstr("--allow-missing")));
  EXPECT_EQ(compare(set_, {"--allow-missing"}).code, 0);

  auto writer = RecordWriter::create(file("set/train-00000-of-00001")).value();
  ASSERT_TRUE(writer.write(make_image_example({.encoded = "no image", .label = 1})));
  auto records = read_records(path)->iterate(0).value();
  while (const auto record = records->next().value()) ASSERT_TRUE(writer.write(record->data));
  ASSERT_TRUE(writer.finish());
  std::filesystem::remove(path);
  EXPECT_THAT(compare(set_).error, HasSubstr(set_ + "/train-00000-of-00001: record 0 at byte 0: "));
  EXPECT_EQ(compare(set_, {"--max-bad", "1"}).code, 0);

  set_ = file("folders");
  make("folder");
  const Ended folders = compare(set_);
  EXPECT_EQ(folders.code, 2);
  EXPECT_THAT(folders.error, AllOf(HasSubstr(set_), HasSubstr("format folder"), HasSubstr("xoe data convert")));
  EXPECT_THAT(compare(file("nowhere")).error, HasSubstr("nowhere: no directory"));
}

TEST_F(Verbs, IndexSaysWhatItIsNotFor) {
  for (const char* format : {"tar", "folder", "nih"}) {
    set_ = file(format);
    make(format);
    const Ended ended = run({"index", set_});
    EXPECT_EQ(ended.code, 2) << format;
    EXPECT_THAT(ended.error, AllOf(HasSubstr(set_ + ": an index is for TFRecord files"))) << format;
  }
  std::filesystem::create_directory(file("mnist"));
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"})
    put_file(file("mnist/") + name, std::string("\0\0\x08\1\0\0\0\0", 8));
  const Ended mnist = run({"index", file("mnist")});
  EXPECT_EQ(mnist.code, 2);
  EXPECT_THAT(mnist.error, AllOf(HasSubstr("an index is for TFRecord files"), HasSubstr("format idx")));
  const Ended archive = run({"index", file("tar") + "/train-00000-of-00002.tar"});
  EXPECT_EQ(archive.code, 2);
  EXPECT_THAT(archive.error, AllOf(HasSubstr("archives have none"), HasSubstr("xoe data convert")));
}

TEST_F(Verbs, VerifyLooksAtLabels) {
  make();
  const auto put_labels = [&](const std::string& name, std::initializer_list<std::int64_t> labels) {
    auto writer = RecordWriter::create(file(name)).value();
    auto records = read_records(set_ + "/train-00000-of-00002")->iterate(0).value();
    for (const std::int64_t label : labels)
      ASSERT_TRUE(writer.write(
          make_image_example({.encoded = parse_image_labels(records->next().value()->data)->encoded, .label = label})));
    ASSERT_TRUE(writer.finish());
  };
  put_labels("zero.tfrecord", {0, 1, 2});
  Json report = verified({file("zero.tfrecord")}, 0);
  EXPECT_THAT(report["notes"].dump(), AllOf(HasSubstr("1 record with a label 0"), HasSubstr("--label-offset 0")));
  EXPECT_TRUE(verified({file("zero.tfrecord"), "--label-offset", "0"}, 0)["notes"].empty());
  report = verified({file("zero.tfrecord"), "--label-offset", "1"}, 1);
  EXPECT_THAT(report["findings"][0]["problem"].get<std::string>(), HasSubstr("label 0; they count from 1"));
  report = verified({file("zero.tfrecord"), "--label-key", "class"}, 1);
  EXPECT_EQ(report["bad"], 3);
  EXPECT_THAT(report["findings"][0]["problem"].get<std::string>(), HasSubstr("no whole number in the feature class"));
  report = verified({file("zero.tfrecord"), "--label-offset", "0", "--label-key", "image/filename"}, 1);
  EXPECT_THAT(report["findings"][0]["problem"].get<std::string>(),
              HasSubstr("image/filename holds values of the kind bytes, not whole numbers"));
  put_file(file("labels.txt"), "a\n\nb\n");
  report = verified({file("zero.tfrecord"), "--label-offset", "0"}, 1);
  EXPECT_THAT(report["findings"][0]["problem"].get<std::string>(), HasSubstr("labels.txt: line 2 is empty"));
  put_file(file("labels.txt"), "a\nb\n");
  report = verified({file("zero.tfrecord"), "--label-offset", "0"}, 1);
  EXPECT_THAT(report["findings"][0]["problem"].get<std::string>(),
              HasSubstr("label 2; the 2 classes have labels 0 to 1"));
}

// What was not looked at is not called right.
TEST_F(Verbs, VerifySaysWhereItFindsNoImages) {
  make();
  Json report = verified({set_, "--image-key", "picture"}, 0);
  EXPECT_THAT(report["notes"].dump(), HasSubstr("49 records without picture"));
  report = verified({set_, "--decode", "--image-key", "picture"}, 1);
  EXPECT_EQ(report["bad"], 3) << "files";
  EXPECT_THAT(report["findings"][0]["problem"].get<std::string>(),
              AllOf(HasSubstr("20 records without an image in the feature picture"),
                    HasSubstr("--image-key names the right one of "), HasSubstr("image/encoded")));
  EXPECT_THAT(run({"verify", set_, "--decode"}).out, HasSubstr("every image decodes"));
}

TEST_F(Verbs, IndexesOfOtherToolsAreLeftAlone) {
  make();
  const std::string index = set_ + "/train-00000-of-00002.idx";
  put_file(index, "0 3000\n3000 2900\n");
  EXPECT_EQ(run({"verify", set_}).code, 0);
  const Json indexed = Json::parse(run({"index", "--json", set_}).out);
  EXPECT_EQ(indexed["files"].size(), 3U) << indexed;
  auto again = make_arguments(set_);
  again.insert(again.end() - 1, "--overwrite");
  ASSERT_EQ(run(again).code, 0);
  EXPECT_EQ(read_file(index), "0 3000\n3000 2900\n");
}

TEST_F(Verbs, InspectShowsOneRecordCompressedAndSequences) {
  auto writer = RecordWriter::create(file("frames"), Compression::kZlib).value();
  SequenceExampleBuilder builder;
  builder.context().add_bytes("name", "walk");
  for (const std::int64_t step : {4, 5, 6}) builder.add_integers("steps", std::span(&step, 1));
  ASSERT_TRUE(writer.write(builder.to_example()));
  ASSERT_TRUE(writer.finish());
  const Ended ended = run({"inspect", file("frames"), "--sequence", "--record", "0", "--json"});
  ASSERT_EQ(ended.code, 0) << ended.error;
  const Json record = Json::parse(ended.out);
  EXPECT_EQ(record["features"]["context"]["name"][0], "walk");
  EXPECT_EQ(record["features"]["lists"]["steps"]["steps"], 3);
  EXPECT_EQ(record["features"]["lists"]["steps"]["first"][2][0], 6);
  const Ended summed = run({"inspect", file("frames"), "--sequence"});
  EXPECT_EQ(summed.code, 0);
  EXPECT_THAT(summed.out, HasSubstr("zlib"));
  EXPECT_THAT(summed.out, HasSubstr("1 of 1 records are tf.SequenceExamples"));
  const Ended beyond = run({"inspect", file("frames"), "--record", "1"});
  EXPECT_EQ(beyond.code, 2);
  EXPECT_THAT(beyond.error, HasSubstr("it has 1"));
}

TEST_F(Verbs, RadiographsDependOnTheSeedAlone) {
  const auto table = [&](const std::string& name, const std::string& seed, const std::string& threads) {
    EXPECT_EQ(run({"make", "--format", "nih", "--images", "9", "--side", "40", "--seed", seed, "--threads", threads,
                   file(name)})
                  .code,
              0);
    return read_file(file(name) + "/Data_Entry_2017.csv") +
           read_file(file(name) + "/images_001/images/00000005_000.png");
  };
  const std::string one = table("one", "3", "1");
  EXPECT_EQ(one, table("two", "3", "4"));
  EXPECT_NE(one, table("three", "4", "4"));
  EXPECT_THAT(read_file(file("one/test_list.txt")), EndsWith("00000006_000.png\n"));
}

// ChestX-ray14 is converted to lists of labels without any option.
TEST_F(Verbs, InspectShowsImagesOfSeveralClasses) {
  make("nih");
  ASSERT_EQ(run({"convert", set_, file("records"), "--keep-order"}).code, 0);
  const Json chest = Json::parse(run({"inspect", set_, "--json", "--records", "40"}).out);
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--multi-label"}}) {
    std::vector<std::string> words = {"inspect", file("records"), "--json", "--records", "40"};
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = run(words);
    ASSERT_EQ(ended.code, 0) << ended.error;
    const Json shown = Json::parse(ended.out);
    EXPECT_TRUE(shown["multi_label"].get<bool>());
    EXPECT_EQ(shown["classes"], chest["classes"]);
    ASSERT_EQ(shown["first"].size(), 40U);
    for (std::size_t i = 0; i < 40; ++i) {
      EXPECT_FALSE(shown["first"][i].contains("problem")) << shown["first"][i];
      EXPECT_EQ(shown["first"][i]["classes"], chest["first"][i]["classes"]);
    }
  }
  std::filesystem::remove(file("records") + "/labels.txt");  // then classes have numbers
  const Json unnamed = Json::parse(run({"inspect", file("records"), "--json", "--records", "40"}).out);
  EXPECT_EQ(unnamed["classes"], 0);
  for (const Json& image : unnamed["first"]) EXPECT_FALSE(image.contains("problem")) << image;
}

}  // namespace
}  // namespace xoe::data
