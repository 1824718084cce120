#include "xoe/data/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/testing/scratch.h"
#include "xoe/data/stages.h"

namespace xoe::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"b/train-1", "a/train-0", "a/train-1", "a/train-1.xoeindex", "a/.train-2", "c/other"}) {
      std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
      put_file(path(name), "x");
    }
  }
  std::string path(const std::string& name) const { return scratch_.file(name); }

  Scratch scratch_;
};

TEST_F(Files, PatternsWithFoldersSortedAndEachOnce) {
  EXPECT_THAT(match_files({path("*/train-*")}).value(),
              ElementsAre(path("a/train-0"), path("a/train-1"), path("b/train-1")));
  EXPECT_THAT(match_files({path("b/*"), path("a/train-[0-1]"), path("?/train-1")}).value(),
              ElementsAre(path("a/train-0"), path("a/train-1"), path("b/train-1")));
  EXPECT_THAT(match_files({path("{c,b}/*")}).value(), ElementsAre(path("b/train-1"), path("c/other")));
  EXPECT_THAT(match_files({path("a/train-0")}).value(), ElementsAre(path("a/train-0")));
}

// DALI, WebDataset and others keep text beside the files.
TEST_F(Files, IndexesOfOtherToolsAreNoneOfThem) {
  for (const char* name : {"a/train-0.idx", "a/train-0.index", "a/train-1.tfindex"})
    put_file(path(name), "0 120\n120 98\n");
  put_file(path("a/train-5.idx"), std::string("\x08\0\0\0", 4));  // not text: a record file with an odd name
  EXPECT_THAT(match_files({path("a/train-*")}).value(),
              ElementsAre(path("a/train-0"), path("a/train-1"), path("a/train-5.idx")));
  EXPECT_THAT(match_files({path("a/train-0.idx")}).value(), ElementsAre(path("a/train-0.idx")));
}

TEST_F(Files, EveryPatternMustMatch) {
  const auto found = match_files({path("a/*"), path("a/none-*")});
  EXPECT_EQ(found.error().code(), Code::kUnavailable);
  EXPECT_THAT(found.error().message(), HasSubstr("a/none-*: no file matches"));
  EXPECT_EQ(match_files({path("nowhere/*")}).error().code(), Code::kUnavailable);
  EXPECT_EQ(match_files(std::vector<std::string>{}).error().code(), Code::kInvalidArgument);
}

TEST_F(Files, AsAStageThatCanBeShuffled) {
  const auto stage = files({path("*/*")}).value();
  EXPECT_EQ(stage->size(), 4);
  auto iterator = shuffle(stage, 10, 1)->iterate(0).value();
  std::vector<std::string> all;
  for (auto file = iterator->next().value(); file; file = iterator->next().value()) all.push_back(*file);
  EXPECT_THAT(all, ::testing::UnorderedElementsAreArray(match_files({path("*/*")}).value()));
}

}  // namespace
}  // namespace xoe::data
