// xoe data convert: what is written, interrupted, refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "data/cli/image_facts.h"
#include "data/jpeg/jpeg.h"
#include "data/png/png.h"
#include "data/records/example.h"
#include "data/source/formats.h"
#include "data/tests/idx_file.h"
#include "data/tests/record_extents.h"
#include "data/tests/run_data.h"
#include "xoe/data/record_writer.h"

namespace xoe::data {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// All files below a directory.
std::map<std::string, std::string> contents(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), directory).string()] = read_file(entry.path().string());
  return files;
}

// Images by their bytes, each with its class's name, or its classes' names.
std::multimap<std::string, std::string> images(ImagePipelineOptions options) {
  const auto source = open_image_source(options).value();
  const auto names = source->class_names();
  std::multimap<std::string, std::string> all;
  std::string buffer;
  for (std::int64_t i = 0; i < source->records(); ++i) {
    const auto record = source->read(i, buffer).value();
    const std::int64_t label = record.label - source->label_offset();
    std::string name;
    if (!source->multi_label()) {
      name = names.empty() ? std::to_string(label) : names[static_cast<std::size_t>(label)];
    } else {
      for (std::size_t c = 0; c < record.targets.size(); ++c)
        if (record.targets[c] != 0) name += names[c] + "|";
    }
    all.emplace(std::string(record.bytes), name);
  }
  return all;
}

class Convert : public ::testing::Test {
 protected:
  void make(const std::string& format = "tfrecord") {
    auto arguments = make_arguments(set_);
    arguments.insert(arguments.end(), {"--format", format});
    ASSERT_EQ(run(arguments).code, 0);
  }
  std::string file(std::string_view name) const { return scratch_.file(name); }

  Scratch scratch_;
  std::string set_ = scratch_.file("set");
};

TEST_F(Convert, RoundsThroughFoldersAndTarKeepImagesAndClasses) {
  make();
  const auto before = images({.directory = set_});
  const auto before_held_out = images({.directory = set_, .training = false});
  ASSERT_EQ(run({"convert", set_, file("folder"), "--to", "folder"}).code, 0);
  ASSERT_EQ(run({"convert", set_, file("folder"), "--to", "folder", "--split", "validation"}).code, 0);
  EXPECT_EQ(images({.directory = file("folder")}), before);
  EXPECT_EQ(images({.directory = file("folder"), .training = false}), before_held_out);
  for (const char* compression : {"none", "gzip", "zlib"}) {
    const std::string records = file(compression);
    const Ended ended =
        run({"convert", file("folder"), records, "--shards", "3", "--compression", compression, "--json"});
    ASSERT_EQ(ended.code, 0) << ended.error;
    const Json report = Json::parse(ended.out);
    EXPECT_EQ(report["images"], 40);
    EXPECT_EQ(report["shards"], 3);
    EXPECT_EQ(report["kept_shards"], 0);
    EXPECT_EQ(images({.directory = records}), before);
    EXPECT_FALSE(std::filesystem::exists(records + "/.xoe-convert.json"));
  }
  ASSERT_EQ(run({"convert", file("gzip"), file("tar"), "--to", "tar"}).code, 0);
  // Of a tar, classes have numbers, which are those of the sorted names here.
  ASSERT_EQ(run({"convert", file("tar"), file("last")}).code, 0);
  auto numbered = images({.directory = file("last")});
  EXPECT_EQ(numbered.size(), before.size());
  for (const auto& [bytes, name] : images({.directory = file("folder")})) EXPECT_TRUE(before.contains(bytes));
  EXPECT_EQ(read_file(file("last/labels.txt")), "00000\n00001\n00002\n00003\n00004\n");
  // One name for what is written, as in make; and numbers in place of names are said.
  EXPECT_THAT(run({"convert", file("last"), file("named"), "--format", "tar"}).out, Not(HasSubstr("no names")));
  std::filesystem::remove(file("last/labels.txt"));
  const Ended unnamed = run({"convert", file("last"), file("unnamed"), "--format", "folder"});
  EXPECT_THAT(unnamed.out, HasSubstr("the source has no names of classes: folders are called by numbers"));
}

TEST_F(Convert, FillsInWhatHeadersSay) {
  make();
  ASSERT_EQ(run({"convert", set_, file("out"), "--shards", "1", "--keep-order"}).code, 0);
  const Ended shown = run({"inspect", file("out/train-00000-of-00001"), "--record", "7", "--json"});
  ASSERT_EQ(shown.code, 0) << shown.error;
  const Json record = Json::parse(shown.out);
  const Json& features = record["features"];
  EXPECT_EQ(features["image/width"][0], record["image"]["width"]);
  EXPECT_EQ(features["image/height"][0], record["image"]["height"]);
  EXPECT_EQ(features["image/format"][0], "JPEG");
  EXPECT_EQ(features["image/class/label"][0], 7 % 5 + 1);
  EXPECT_EQ(features["image/filename"][0], "train_00000007.jpg");
}

TEST_F(Convert, ShufflesBySeedWhateverTheThreads) {
  make();
  const auto converted = [&](const std::string& to, const std::string& seed, const std::string& threads) {
    EXPECT_EQ(run({"convert", set_, to, "--shards", "4", "--shuffle", seed, "--threads", threads}).code, 0);
    return contents(to);
  };
  const auto one = converted(file("one"), "7", "1");
  EXPECT_EQ(one, converted(file("two"), "7", "4"));
  EXPECT_NE(one, converted(file("three"), "8", "4"));
}

// Images sorted by class come out mixed; only where images cannot be read by themselves the order stays.
TEST_F(Convert, ShufflesByDefault) {
  ASSERT_EQ(run({"make", "--images", "600", "--validation", "0", "--classes", "10", "--shards", "1", "--size-min", "32",
                 "--size-max", "33", "--format", "folder", set_})
                .code,
            0);
  const auto labels = [](const std::string& directory) {
    const auto source = open_image_source({.directory = directory}).value();
    std::vector<std::int64_t> all;
    std::string buffer;
    for (std::int64_t i = 0; i < source->records(); ++i) all.push_back(source->read(i, buffer).value().label);
    return all;
  };
  const auto distinct = [](const std::vector<std::int64_t>& all) {
    double sum = 0;
    for (std::size_t at = 0; at < all.size(); at += 20)
      sum += static_cast<double>(
          std::set(all.begin() + static_cast<std::ptrdiff_t>(at), all.begin() + static_cast<std::ptrdiff_t>(at) + 20)
              .size());
    return sum / (static_cast<double>(all.size()) / 20);
  };
  const double ideal = 10 * (1 - std::pow(0.9, 20));
  for (const char* to : {"tfrecord", "tar"}) {
    const std::string out = file(std::string("shuffled-") + to);
    const Ended ended = run({"convert", set_, out, "--to", to, "--json"});
    ASSERT_EQ(ended.code, 0) << ended.error;
    EXPECT_EQ(Json::parse(ended.out)["shuffled"], true);
    const auto all = labels(out);
    ASSERT_EQ(all.size(), 600U);
    EXPECT_NEAR(distinct(all), ideal, 0.03 * ideal) << to;
    auto sorted = all;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(run({"convert", set_, file(std::string("kept-") + to), "--to", to, "--keep-order"}).code, 0);
    EXPECT_EQ(labels(file(std::string("kept-") + to)), sorted);
  }
  ASSERT_EQ(run({"convert", set_, file("gzip"), "--keep-order", "--compression", "gzip"}).code, 0);
  const Ended few = run({"convert", file("gzip"), file("plain")});
  ASSERT_EQ(few.code, 0) << few.error;
  EXPECT_THAT(few.error, Not(HasSubstr("in the source's order")));
  EXPECT_NEAR(distinct(labels(file("plain"))), ideal, 0.03 * ideal);
  EXPECT_EQ(run({"convert", set_, file("both"), "--shuffle", "1", "--keep-order"}).code, 2);
}

TEST_F(Convert, ManyCompressedImagesKeepTheirOrderAndSaySo) {
  make();
  const std::string jpeg = images({.directory = set_}).begin()->first;
  auto writer = RecordWriter::create(file("many.tfrecord"), Compression::kGzip).value();
  for (int i = 0; i <= kShuffleBuffer; ++i)
    ASSERT_TRUE(writer.write(make_image_example({.encoded = jpeg, .label = i / 1000 + 1})));
  ASSERT_TRUE(writer.finish());
  const auto labels = [&](const std::string& directory) {
    const auto source = open_image_source({.directory = directory}).value();
    std::vector<std::int64_t> all;
    std::string buffer;
    for (std::int64_t i = 0; i < source->records(); i += 50) all.push_back(source->read(i, buffer).value().label);
    return all;
  };
  const Ended kept = run({"convert", file("many.tfrecord"), file("plain"), "--json"});
  ASSERT_EQ(kept.code, 0) << kept.error;
  EXPECT_THAT(kept.error, HasSubstr("in the source's order"));
  EXPECT_EQ(Json::parse(kept.out)["shuffled"], false);
  auto all = labels(file("plain"));
  EXPECT_TRUE(std::ranges::is_sorted(all));
  ASSERT_EQ(run({"convert", file("many.tfrecord"), file("mixed"), "--shuffle", "1"}).code, 0);
  all = labels(file("mixed"));
  EXPECT_FALSE(std::ranges::is_sorted(all));
}

TEST_F(Convert, NamesOfAnySortAreKeptOrRefused) {
  make("folder");
  const auto rename = [&](const std::string& from, const std::string& to) {
    for (const char* split : {"/train/", "/validation/"})
      std::filesystem::rename(set_ + split + from, set_ + split + to);
  };
  std::vector<std::string> classes;
  for (const auto& entry : std::filesystem::directory_iterator(set_ + "/train"))
    classes.push_back(entry.path().filename().string());
  rename(classes[0], "caf\xe9");  // no UTF-8
  ASSERT_EQ(run({"convert", set_, file("latin")}).code, 0);
  EXPECT_THAT(read_file(file("latin/labels.txt")), HasSubstr("caf\xe9\n"));
  rename(classes[1], "two\nlines");
  const Ended refused = run({"convert", set_, file("out")});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.error, HasSubstr("has a line break, which labels.txt cannot hold"));
  EXPECT_EQ(std::count(refused.error.begin(), refused.error.end(), '\n'), 1) << refused.error;
  EXPECT_FALSE(std::filesystem::exists(file("out")));
  EXPECT_EQ(run({"convert", set_, file("folder"), "--format", "folder"}).code, 0);
  EXPECT_EQ(images({.directory = file("folder")}).size(), 40U);
}

// A label is not believed so far as to write a labels.txt of so many lines.
TEST_F(Convert, ALabelOfBillionsIsAnError) {
  make();
  const std::string jpeg = images({.directory = set_}).begin()->first;
  for (const std::int64_t label : {std::int64_t{99'999'999'999}, INT64_MAX}) {
    auto writer = RecordWriter::create(file("huge.tfrecord")).value();
    ASSERT_TRUE(writer.write(make_image_example({.encoded = jpeg, .label = label})));
    ASSERT_TRUE(writer.finish());
    for (const std::string verb : {"convert", "stats", "verify"}) {
      std::vector<std::string> words = {verb, file("huge.tfrecord")};
      if (verb == "convert") words.push_back(file("out"));
      const Ended refused = run(words);
      EXPECT_EQ(refused.code, 1) << verb;
      EXPECT_THAT(refused.out + refused.error, HasSubstr("at most 16777216 classes are supported")) << verb;
    }
    EXPECT_FALSE(std::filesystem::exists(file("out")));
  }
}

// Another program's labels.txt is not overwritten because it cannot be understood.
TEST_F(Convert, ALabelsTxtThatIsWrongIsAnError) {
  make();
  std::filesystem::create_directory(file("out"));
  put_file(file("out/labels.txt"), "a\n\nb\n");
  const Ended refused = run({"convert", set_, file("out")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.error, HasSubstr("labels.txt: line 2 is empty"));
  EXPECT_EQ(read_file(file("out/labels.txt")), "a\n\nb\n");
}

TEST_F(Convert, ShrinksOnAskingAlone) {
  make();
  ASSERT_EQ(run({"convert", set_, file("small"), "--keep-order", "--resize-shorter", "32", "--quality", "80"}).code, 0);
  const auto source = open_image_source({.directory = file("small")}).value();
  const auto before = open_image_source({.directory = set_}).value();
  std::string buffer;
  std::string old_buffer;
  int unchanged = 0;
  for (std::int64_t i = 0; i < source->records(); ++i) {
    const auto record = source->read(i, buffer).value();
    const auto old_record = before->read(i, old_buffer).value();
    Codecs codecs;
    const ImageFacts facts = read_image_facts(record, codecs).value();
    const ImageFacts old_facts = read_image_facts(old_record, codecs).value();
    EXPECT_EQ(std::min(facts.width, facts.height), 32);
    EXPECT_EQ(facts.channels, old_facts.channels);
    const bool was_small = std::min(old_facts.width, old_facts.height) == 32;
    EXPECT_EQ(record.bytes == old_record.bytes, was_small);
    if (was_small) ++unchanged;
    Image image;
    EXPECT_TRUE(JpegDecoder().decode(record.bytes, image));
  }
  EXPECT_LT(unchanged, source->records());
}

TEST_F(Convert, RawPixelsBecomePng) {
  std::vector<std::string> pixels;
  std::vector<std::string> labels;
  for (int i = 0; i < 10; ++i) {
    pixels.emplace_back(24, static_cast<char>(20 * i));
    labels.emplace_back(1, static_cast<char>(i));
  }
  write_idx(file("train-images-idx3-ubyte"), {4, 6}, pixels);
  write_idx(file("train-labels-idx1-ubyte"), {}, labels);
  ASSERT_EQ(run({"convert", scratch_.path(), file("out"), "--shards", "2", "--keep-order"}).code, 0);
  const auto source = open_image_source({.directory = file("out")}).value();
  std::string buffer;
  const auto record = source->read(7, buffer).value();
  EXPECT_EQ(record.label, 8);
  Image image;
  ASSERT_TRUE(PngDecoder().decode(record.bytes, image));
  EXPECT_EQ(image.width(), 6);
  EXPECT_EQ(image.height(), 4);
  EXPECT_EQ(image.row(3)[17], 140);
}

TEST_F(Convert, RadiographsKeepAllTheirFindings) {
  ASSERT_EQ(run({"make", "--format", "nih", "--images", "40", "--side", "32", file("chest")}).code, 0);
  const auto before = images({.directory = file("chest")});
  ASSERT_EQ(run({"convert", file("chest"), file("records")}).code, 0);
  EXPECT_EQ(images({.directory = file("records"), .multi_label = true}), before);
  ASSERT_EQ(run({"convert", file("records"), file("again"), "--multi-label"}).code, 0);
  EXPECT_EQ(images({.directory = file("again"), .multi_label = true}), before);
  const Ended refused = run({"convert", file("chest"), file("tar"), "--to", "tar"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.error, HasSubstr("several classes"));
  EXPECT_FALSE(std::filesystem::exists(file("tar")));
}

class Interrupted : public Convert, public ::testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(Signals, Interrupted, ::testing::Values(SIGKILL, SIGINT));

TEST_P(Interrupted, GoesOnToTheSameBytes) {
  ASSERT_EQ(run({"make", "--images", "600", "--validation", "0", file("sourc\xe9")}).code, 0);
  const auto arguments = [&](const std::string& to) {
    return std::vector<std::string>{"convert", file("sourc\xe9"), to,  "--shards",         "30", "--shuffle",
                                    "3",       "--threads",       "1", "--resize-shorter", "80", "--json"};
  };
  ASSERT_EQ(run(arguments(file("whole"))).code, 0);
  const auto third = [&] { return file("parts/train-00002-of-00030"); };
  const auto last = [&] { return file("parts/train-00029-of-00030"); };
  // Where this process waited long for a processor, the other one is done before the signal: then once more.
  Ended ended;
  for (int i = 0; i < 10 && (i == 0 || std::filesystem::exists(last())); ++i) {
    std::filesystem::remove_all(file("parts"));
    ended = run(arguments(file("parts")), nullptr, [&](pid_t child) {
      while (!std::filesystem::exists(third())) ::usleep(200);
      ::kill(child, GetParam());
    });
  }
  EXPECT_EQ(ended.code, GetParam() == SIGKILL ? 1000 + SIGKILL : 128 + SIGINT);
  ASSERT_FALSE(std::filesystem::exists(last()));

  auto other = arguments(file("parts"));
  other.insert(other.end(), {"--quality", "70"});
  const Ended refused = run(other);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.error, HasSubstr("unfinished conversion"));

  const auto kept = std::filesystem::last_write_time(file("parts/train-00000-of-00030"));
  const Ended again = run(arguments(file("parts")));
  ASSERT_EQ(again.code, 0) << again.error;
  const Json report = Json::parse(again.out);
  EXPECT_GE(report["kept_shards"], 2);
  EXPECT_EQ(report["images"], 600);
  EXPECT_EQ(std::filesystem::last_write_time(file("parts/train-00000-of-00030")), kept);
  const auto parts = contents(file("parts"));
  const auto whole = contents(file("whole"));
  EXPECT_EQ(parts.size(), whole.size());
  for (const auto& [name, bytes] : whole) EXPECT_TRUE(parts.contains(name) && parts.at(name) == bytes) << name;
}

TEST_F(Convert, RemovesWhatAKilledRunLeft) {
  make();
  std::filesystem::create_directory(file("out"));
  for (const char* content : {"", "half"}) {  // killed before its first byte, or later
    const std::string left = file("out/.train-00000-of-00002.unfinished-") + std::to_string(std::strlen(content));
    put_file(left, content);
  }
  ASSERT_EQ(run({"convert", set_, file("out")}).code, 0);
  for (const auto& entry : std::filesystem::directory_iterator(file("out")))
    EXPECT_EQ(entry.path().string().find("unfinished"), std::string::npos) << entry.path();
}

TEST_F(Convert, BadImagesFailOrAreLeftOut) {
  make();
  const std::string path = set_ + "/train-00000-of-00002";
  const auto places = extents_of(path);
  std::string bytes = read_file(path);
  bytes[places[3].offset + 100] ^= 4;
  put_file(path, bytes);
  const Ended failed = run({"convert", set_, file("out")});
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.error, HasSubstr("record 3 at byte"));
  EXPECT_FALSE(std::filesystem::exists(file("out")));
  const Ended ended = run({"convert", set_, file("out"), "--skip-bad", "1", "--json"});
  ASSERT_EQ(ended.code, 0) << ended.error;
  const Json report = Json::parse(ended.out);
  EXPECT_EQ(report["images"], 39);
  EXPECT_EQ(report["skipped"], 1);
  EXPECT_THAT(report["bad"][0].get<std::string>(), HasSubstr("record 3 at byte"));
  EXPECT_EQ(run({"verify", "--decode", file("out")}).code, 0);
}

TEST_F(Convert, OutOfRoomIsAClearErrorAndLeavesNothing) {
  make();
  for (const char* format : {"tfrecord", "tar"}) {
    const Ended ended = run({"convert", set_, file("out"), "--to", format, "--shards", "1"}, [] {
      const rlimit limit{20000, 20000};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    });
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.error, HasSubstr("cannot write"));
    EXPECT_FALSE(std::filesystem::exists(file("out")));
  }
}

TEST_F(Convert, RefusesWhatMakesNoSense) {
  make();
  const auto code = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"convert", set_, file("out")});
    return run(more).code;
  };
  EXPECT_EQ(code({"--to", "zip"}), 2);
  EXPECT_EQ(code({"--shards", "-1"}), 2);
  EXPECT_EQ(code({"--threads", "many"}), 2);
  EXPECT_EQ(code({"--resize-shorter", "-5"}), 2);
  EXPECT_EQ(code({"--quality", "101"}), 2);
  EXPECT_EQ(code({"--to", "tar", "--compression", "gzip"}), 2);
  EXPECT_EQ(code({"--split", "all"}), 2);
  EXPECT_EQ(run({"convert", set_}).code, 2);
  EXPECT_EQ(run({"convert", file("none"), file("out")}).code, 1);
  EXPECT_FALSE(std::filesystem::exists(file("out")));
  ASSERT_EQ(code({}), 0);
  const auto before = contents(file("out"));
  const Ended again = run({"convert", set_, file("out"), "--json"});
  EXPECT_EQ(again.code, 2);
  EXPECT_TRUE(Json::parse(again.out).contains("error"));
  EXPECT_EQ(contents(file("out")), before);
  put_file(file("out/labels.txt"), "cat\ndog\n");
  EXPECT_EQ(code({"--split", "validation"}), 2);
}

}  // namespace
}  // namespace xoe::data
