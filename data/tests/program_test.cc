// The program: made, inspected, refused, out of room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "data/tests/record_extents.h"
#include "data/tests/run_data.h"
#include "xoe/data/images.h"

namespace xoe::data {
namespace {

using ::testing::HasSubstr;

TEST(Program, MakesInspectsAndTheLibraryReads) {
  const Scratch scratch;
  const Ended made = run(make_arguments(scratch.file("set")));
  ASSERT_EQ(made.code, 0) << made.error;
  const auto report = nlohmann::json::parse(made.out);
  EXPECT_EQ(report["images"], 40);
  EXPECT_EQ(report["files"], 3);

  const Ended inspected = run({"inspect", scratch.file("set/train-00001-of-00002"), "--json", "--records", "2"});
  ASSERT_EQ(inspected.code, 0) << inspected.error;
  const auto facts = nlohmann::json::parse(inspected.out);
  EXPECT_EQ(facts["records"], 20);
  EXPECT_EQ(facts["examples"], 20);
  EXPECT_EQ(facts["first"].size(), 2U);
  EXPECT_EQ(facts["features"]["image/class/label"]["min"], 1);
  EXPECT_EQ(facts["features"]["image/class/label"]["max"], 5);
  EXPECT_EQ(facts["features"]["image/encoded"]["records"], 20);

  const Ended plain = run({"inspect", scratch.file("set/train-00001-of-00002")});
  EXPECT_EQ(plain.code, 0);
  EXPECT_THAT(plain.out, HasSubstr("20 records"));
  EXPECT_THAT(plain.out, HasSubstr("image/class/text"));

  const auto images = open_images({.directory = scratch.file("set"), .batch = 8, .image_size = 32}).value();
  EXPECT_EQ(images->classes(), 5);
  EXPECT_EQ((*images->next())->count, 8);
}

TEST(Program, CorruptFileEndsWithRecordAndOffset) {
  const Scratch scratch;
  ASSERT_EQ(run(make_arguments(scratch.file("set"))).code, 0);
  const std::string path = scratch.file("set/train-00000-of-00002");
  const auto places = extents_of(path);
  std::string bytes = read_file(path);
  bytes[places[3].offset + 100] ^= 4;
  put_file(path, bytes);
  for (const bool json : {false, true}) {
    const Ended ended = json ? run({"inspect", path, "--json"}) : run({"inspect", path});
    EXPECT_EQ(ended.code, 1);
    EXPECT_THAT(ended.error, HasSubstr("record 3 at byte " + std::to_string(places[3].offset)));
    EXPECT_EQ(json, !ended.out.empty() && nlohmann::json::parse(ended.out).contains("error"));
  }
}

TEST(Program, RefusesWhatMakesNoSense) {
  const Scratch scratch;
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({"--help"}).code, 0);
  EXPECT_EQ(run({"make"}).code, 2);
  EXPECT_EQ(run({"make", "--images", "0", scratch.file("a")}).code, 2);
  EXPECT_EQ(run({"make", "--images", "many", scratch.file("a")}).code, 2);
  EXPECT_EQ(run({"make", "--classes", "1001", scratch.file("a")}).code, 2);
  EXPECT_EQ(run({"make", "--size-min", "300", scratch.file("a")}).code, 2);
  EXPECT_EQ(run({"inspect", scratch.file("none")}).code, 1);
  EXPECT_EQ(run({"inspect", scratch.path()}).code, 1);
  put_file(scratch.file("file"), "x");
  EXPECT_EQ(run({"make", scratch.file("file/below")}).code, 1);
  EXPECT_FALSE(std::filesystem::exists(scratch.file("a")));
}

TEST(Program, OverwritesOnlyWhenAsked) {
  const Scratch scratch;
  auto arguments = make_arguments(scratch.file("set"));
  ASSERT_EQ(run(arguments).code, 0);
  const std::string before = read_file(scratch.file("set/train-00000-of-00002"));
  arguments.insert(arguments.end(), {"--seed", "5"});
  const Ended refused = run(arguments);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.error, HasSubstr("overwrite"));
  EXPECT_EQ(read_file(scratch.file("set/train-00000-of-00002")), before);
  arguments.push_back("--overwrite");
  EXPECT_EQ(run(arguments).code, 0);
  EXPECT_NE(read_file(scratch.file("set/train-00000-of-00002")), before);
}

TEST(Program, OutOfRoomIsAClearErrorAndLeavesNothing) {
  const Scratch scratch;
  const Ended ended = run(make_arguments(scratch.file("set")), [] {
    const rlimit limit{20000, 20000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  });
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.error, HasSubstr("cannot write"));
  EXPECT_FALSE(std::filesystem::exists(scratch.file("set")));
}

}  // namespace
}  // namespace xoe::data
