// Data that should be there and are not: every format, every kind, the library and the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/testing/scratch.h"
#include "data/files/listing.h"
#include "data/files/tar.h"
#include "data/records/example.h"
#include "data/source/formats.h"
#include "data/tests/opened_sources.h"
#include "data/tests/run_data.h"
#include "xoe/data/files.h"
#include "xoe/data/record_writer.h"

namespace xoe::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// What a file is replaced by, and what a message says of it.
struct Fault {
  const char* name;
  void (*put)(const std::string& path);
  const char* message;
};

const Fault kFaults[] = {
    {"Link", [](const std::string& path) { std::filesystem::create_symlink("/nowhere/at-all", path); },
     "a link to /nowhere/at-all, which does not exist"},
    {"Folder", [](const std::string& path) { std::filesystem::create_directory(path); }, "a folder, not a file"},
    {"Pipe", [](const std::string& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); }, "a pipe, not a file"},
    {"Empty", [](const std::string& path) { put_file(path, ""); }, "empty"},
};
const Fault kAbsent = {"Absent", [](const std::string&) {}, "absent"};

class Missing : public ::testing::TestWithParam<Fault> {
 protected:
  std::string file(const std::string& name) const { return scratch_.file(name); }
  // Has the fault in the place of a file.
  std::string spoil(const std::string& name) const {
    std::filesystem::remove_all(file(name));
    GetParam().put(file(name));
    return file(name);
  }
  void make(const std::string& format) {
    auto words = make_arguments(file("set"));
    words.insert(words.end(), {"--format", format});
    std::replace(words.begin(), words.end(), std::string("2"), std::string("4"));  // shards
    const Ended made = run(words);
    ASSERT_EQ(made.code, 0) << made.error;
  }

  // The default is an error with the path, the kind and the way out; with allow_missing the rest is there.
  void expect_told(ImagePipelineOptions options, const std::string& path, std::int64_t left) const {
    const auto refused = open_image_source(options);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message(), HasSubstr(path));
    EXPECT_THAT(refused.error().message(), HasSubstr(GetParam().message));
    EXPECT_THAT(refused.error().message(), HasSubstr("--allow-missing"));
    options.allow_missing = true;
    LeftOut left_out;
    const auto opened = open_image_source(options, &left_out);
    ASSERT_TRUE(opened) << opened.error().message();
    EXPECT_EQ((*opened)->records(), left);
    EXPECT_EQ((*opened)->missing(), 1);
    EXPECT_THAT(left_out.missing.first(), HasSubstr(path));
    EXPECT_EQ(left_out.bad.count(), 0);
    std::string buffer;
    for (std::int64_t i = 0; i < left; ++i) EXPECT_TRUE((*opened)->read(i, buffer));
  }

  // verify lists it, convert refuses it and goes on where told to.
  void expect_verbs_tell(const std::string& set, const std::string& path, int left) const {
    const Ended verified = run({"verify", "--json", set});
    EXPECT_EQ(verified.code, 1) << verified.error;
    const Json report = Json::parse(verified.out);
    EXPECT_GE(report["bad"], 1);
    EXPECT_THAT(verified.out, HasSubstr(path));
    EXPECT_THAT(verified.out, HasSubstr(GetParam().message));
    const Ended refused = run({"convert", set, file("converted")});
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.error, HasSubstr(path));
    EXPECT_THAT(refused.error, HasSubstr(GetParam().message));
    EXPECT_FALSE(std::filesystem::exists(file("converted")));
    const Ended converted = run({"convert", set, file("converted"), "--allow-missing", "--json"});
    ASSERT_EQ(converted.code, 0) << converted.error;
    const Json made = Json::parse(converted.out);
    EXPECT_EQ(made["images"], left);
    EXPECT_THAT(made["missing_parts"].dump(), HasSubstr(path));
    EXPECT_TRUE(made["bad"].empty());
  }

  Scratch scratch_;
};

std::vector<Fault> with_absent() {
  std::vector<Fault> all(std::begin(kFaults), std::end(kFaults));
  all.push_back(kAbsent);
  return all;
}
std::string name_of(const ::testing::TestParamInfo<Fault>& info) { return info.param.name; }

// Files that hold many images, where a shard can be absent, too.
class MissingShards : public Missing {};
INSTANTIATE_TEST_SUITE_P(Kinds, MissingShards, ::testing::ValuesIn(with_absent()), name_of);

TEST_P(MissingShards, OfRecords) {
  make("tfrecord");
  const std::string path = spoil("set/train-00002-of-00004");
  expect_told({.directory = file("set")}, path, 30);
  expect_verbs_tell(file("set"), path, 30);
}

TEST_P(MissingShards, OfArchives) {
  make("tar");
  const std::string path = spoil("set/train-00002-of-00004.tar");
  expect_told({.directory = file("set")}, path, 30);
  expect_verbs_tell(file("set"), path, 30);
}

// A data set whose validation images are lost is not one without validation images.
TEST_P(MissingShards, OfTheOtherSplit) {
  make("tfrecord");
  std::filesystem::rename(file("set/validation-00000-of-00001"), file("set/validation-00000-of-00002"));
  const std::string path = spoil("set/validation-00001-of-00002");
  expect_told({.directory = file("set"), .training = false}, path, 9);
  EXPECT_TRUE(has_split({.directory = file("set"), .training = false}));
  std::filesystem::remove_all(path);
  std::filesystem::remove_all(file("set/validation-00000-of-00002"));
  EXPECT_FALSE(has_split({.directory = file("set"), .training = false}));
}

TEST_P(MissingShards, ThatPatternsMatch) {
  make("tfrecord");
  const std::string path = spoil("set/train-00002-of-00004");
  for (const char* pattern :
       {"set/train-*", "set/train-0000[0-3]-of-*", "set/{train,validation}-*", "*/train-{00000,00002}-of-*"}) {
    const auto refused = match_files({file(pattern)});
    ASSERT_FALSE(refused) << pattern;
    EXPECT_EQ(refused.error().code(), Code::kDataLoss);
    EXPECT_THAT(refused.error().message(), HasSubstr(path));
    EXPECT_THAT(refused.error().message(), HasSubstr(GetParam().message));
    EXPECT_FALSE(files({file(pattern)}));
    const auto left = match_files({file(pattern)}, {.allow_missing = true});
    ASSERT_TRUE(left) << left.error().message();
    EXPECT_THAT(*left, Not(::testing::Contains(path)));
  }
  // A pattern of some shards does not miss the others.
  EXPECT_THAT(match_files({file("set/train-00001-of-00004")}).value(), ElementsAre(file("set/train-00001-of-00004")));
  EXPECT_EQ(match_files({file("set/train-{00000,00001}-of-*")}).value().size(), 2U);
  const auto some = open_image_source({.directory = file("set"), .pattern = "train-00001-*"});
  EXPECT_EQ((*some)->records(), 10);
}

TEST_P(MissingShards, AreToldByIndexToo) {
  make("tfrecord");
  const std::string path = spoil("set/train-00002-of-00004");
  const Ended ended = run({"index", file("set")});
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, HasSubstr(path));
  EXPECT_THAT(ended.out, HasSubstr(GetParam().message));
}

class MissingImages : public Missing {};
INSTANTIATE_TEST_SUITE_P(Kinds, MissingImages, ::testing::ValuesIn(kFaults), name_of);

TEST_P(MissingImages, OfFolders) {
  make("folder");
  const std::string folder = file("set/train");
  const std::string first = list_directory(folder).value().folders.front();
  const std::string image = list_directory(folder + "/" + first).value().files.front();
  const std::string path = spoil("set/train/" + first + "/" + image);
  expect_told({.directory = file("set")}, path, 39);
  expect_verbs_tell(file("set"), path, 39);
}

TEST_P(MissingImages, OfTables) {
  make("nih");
  const std::string path = spoil("set/images_001/images/00000002_000.png");
  expect_told({.directory = file("set")}, path, 39);
  expect_verbs_tell(file("set"), path, 39);
}

TEST_P(MissingImages, OneFileByItself) {
  for (const char* name : {"train-00000-of-00004", "train-00000.tar", "train-images-idx3-ubyte"}) {
    const std::string path = spoil(name);
    if (std::filesystem::is_directory(path)) continue;  // it is a data set then, of no known kind
    const auto opened = open_image_source({.directory = path, .allow_missing = true});
    EXPECT_FALSE(opened) << name;
  }
}

// A class that lost its folder, or its images, must not vanish.
TEST(MissingClasses, AreToldOf) {
  for (const bool validation : {false, true}) {
    const Scratch scratch;
    auto words = make_arguments(scratch.file("set"));
    words.insert(words.end(), {"--format", "folder"});
    ASSERT_EQ(run(words).code, 0);
    const std::string split = scratch.file(validation ? "set/validation" : "set/train");
    const std::string folder = split + "/" + list_directory(split).value().folders.front();
    const ImagePipelineOptions options{.directory = scratch.file("set"), .training = !validation};
    for (const auto& entry : std::filesystem::directory_iterator(folder)) std::filesystem::remove(entry.path());
    const auto without_images = open_image_source(options);
    ASSERT_FALSE(without_images);
    EXPECT_THAT(without_images.error().message(), HasSubstr(folder + ": a class without images"));
    std::filesystem::remove(folder);
    std::filesystem::create_symlink("/nowhere", folder);
    const auto without_folder = open_image_source(options);
    ASSERT_FALSE(without_folder);
    EXPECT_THAT(without_folder.error().message(), HasSubstr(folder + ": a link to /nowhere"));
    std::filesystem::remove_all(split);
    std::filesystem::create_symlink("/nowhere", split);
    const auto without_split = open_image_source(options);
    ASSERT_FALSE(without_split);
    EXPECT_THAT(without_split.error().message(), HasSubstr(split + ": a link to /nowhere"));
    EXPECT_TRUE(has_split(options));
  }
}

TEST(MissingNames, AreToldOf) {
  const Scratch scratch;
  ASSERT_EQ(run(make_arguments(scratch.path())).code, 0);
  std::filesystem::remove(scratch.file("labels.txt"));
  std::filesystem::create_symlink("/nowhere", scratch.file("labels.txt"));
  const auto opened = open_image_source({.directory = scratch.path()});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message(), HasSubstr("labels.txt: cannot open: a link to /nowhere"));
  const Ended verified = run({"verify", scratch.path()});
  EXPECT_EQ(verified.code, 1);
  EXPECT_THAT(verified.out, HasSubstr("labels.txt: a link to /nowhere, which does not exist"));
}

TEST(MissingRows, OfTheListOfASplitAreToldOf) {
  const Scratch scratch;
  auto words = make_arguments(scratch.path());
  words.insert(words.end(), {"--format", "nih"});
  ASSERT_EQ(run(words).code, 0);
  const std::string list = scratch.file("train_val_list.txt");
  put_file(list, read_file(list) + "99999999_000.png\n");
  const auto opened = open_image_source({.directory = scratch.path()});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message(), HasSubstr("99999999_000.png: in the list of the split, but not in the table"));
}

TEST(AbsentShards, AreCountedFromOneToo) {
  const Scratch scratch;
  for (const char* name : {"part-1-of-3.tfrecord", "part-3-of-3.tfrecord", "other-0-of-1"})
    put_file(scratch.file(name), "x");
  const auto refused = match_files({scratch.file("*")});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("part-2-of-3.tfrecord: absent; 2 files of 3 are there"));
  EXPECT_THAT(refused.error().message(), Not(HasSubstr("part-0-of")));
  EXPECT_EQ(match_files({scratch.file("*")}, {.allow_missing = true}).value().size(), 3U);
}

TEST(AbsentShards, ManyAreNamedInPart) {
  const Scratch scratch;
  put_file(scratch.file("train-00000-of-01000"), "x");
  const auto refused = match_files({scratch.file("train-*")});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("999 parts of the data are missing"));
  EXPECT_THAT(refused.error().message(), HasSubstr("train-00005-of-01000: absent"));
  EXPECT_THAT(refused.error().message(), HasSubstr("; and 994 more"));
}

TEST(AbsentShards, FoldersAreLeftAloneByAStar) {
  const Scratch scratch;
  put_file(scratch.file("a"), "x");
  std::filesystem::create_directory(scratch.file("b"));
  EXPECT_THAT(match_files({scratch.file("*")}).value(), ElementsAre(scratch.file("a")));
}

// For root no folder is closed, so these tests read as a user without rights.
class AsNobody {
 public:
  AsNobody() { EXPECT_TRUE(was_ != 0 || ::seteuid(65534) == 0); }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;
  ~AsNobody() { EXPECT_TRUE(was_ != 0 || ::seteuid(0) == 0); }

 private:
  uid_t was_ = ::geteuid();
};

TEST(ClosedFolders, AreMissingAndAFileSystemsOwnIsNoClass) {
  const Scratch scratch;
  for (const char* name : {"cat", "dog/closed", "fox", "lost+found"})
    std::filesystem::create_directories(scratch.file(name));
  put_file(scratch.file("cat/1.jpg"), "1");
  put_file(scratch.file("dog/2.jpg"), "2");
  put_file(scratch.file("fox/3.jpg"), "3");
  EXPECT_EQ(opened({.directory = scratch.path()})->classes(), 3) << "an empty lost+found is no class";
  std::filesystem::permissions(scratch.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(scratch.file("lost+found"), std::filesystem::perms(0));
  {
    const AsNobody user;
    EXPECT_THAT(read_all(*opened({.directory = scratch.path()})), ElementsAre("1 0", "2 1", "3 2"));
  }
  for (const char* name : {"fox", "dog/closed"})
    std::filesystem::permissions(scratch.file(name), std::filesystem::perms(0));
  {
    const AsNobody user;
    const Error error = error_of({.directory = scratch.path()});
    EXPECT_EQ(error.code(), Code::kDataLoss);
    EXPECT_THAT(error.message(),
                HasSubstr("2 parts of the data are missing: " + scratch.file("dog/closed") +
                          ": cannot list the directory: Permission denied; " + scratch.file("fox") + ": cannot list"));
    const auto rest = opened({.directory = scratch.path(), .allow_missing = true});
    EXPECT_THAT(read_all(*rest), ElementsAre("1 0", "2 1"));
    EXPECT_EQ(rest->missing(), 2);
    EXPECT_EQ(rest->classes(), 3) << "the numbers of the classes stay";
  }
  for (const char* name : {"fox", "dog/closed", "lost+found"})
    std::filesystem::permissions(scratch.file(name), std::filesystem::perms(0755));
  put_file(scratch.file("lost+found/4.jpg"), "4");
  EXPECT_EQ(opened({.directory = scratch.path()})->classes(), 4) << "one with images is a class like any other";
}

}  // namespace
}  // namespace xoe::data
