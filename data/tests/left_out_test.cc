// Missing parts and images that cannot be read are left out, counted and named apart. One option says how many images,
// and errors name it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/testing/scratch.h"
#include "data/cli/convert/convert.h"
#include "data/source/formats.h"
#include "data/tests/rendered_images.h"
#include "data/tests/run_data.h"

namespace xoe::data::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// A folder of classes with 40 images, of which one class has an image of another format and a link that leads nowhere.
class LeftOutOfFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    auto words = make_arguments(set_);
    words.insert(words.end(), {"--format", "folder"});
    ASSERT_EQ(run(words).code, 0);
    put_file(webp_, "RIFFxxxxWEBP");
    std::filesystem::create_symlink("/nowhere", link_);
  }
  ImagePipelineOptions options() const {
    return {.directory = set_, .batch = 4, .image_size = 16, .threads = 0, .epochs = 1};
  }

  Scratch scratch_;
  std::string set_ = scratch_.file("set");
  std::string webp_ = set_ + "/train/disc-plain-0/a.webp";
  std::string link_ = set_ + "/train/disc-plain-0/b.jpg";
};

TEST_F(LeftOutOfFolders, TheErrorNamesAllThatIsWrongAndTheWaysOut) {
  const auto opened = open_image_source({.directory = set_});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message(), AllOf(HasSubstr(webp_), HasSubstr("max_bad=1 (--max-bad 1)"),
                                              HasSubstr(link_ + ": a link to /nowhere"), HasSubstr("--allow-missing")));
  const auto one = open_image_source({.directory = set_, .allow_missing = true});
  ASSERT_FALSE(one);
  EXPECT_THAT(one.error().message(), AllOf(HasSubstr(webp_), Not(HasSubstr(link_))));
}

TEST_F(LeftOutOfFolders, MissingPartsAndBadImagesAreToldApart) {
  auto opening = options();
  opening.allow_missing = true;
  opening.max_bad = 1;
  std::vector<std::string> lines;
  opening.warn = [&lines](std::string_view line) { lines.emplace_back(line); };
  const auto images = open_images(opening);
  ASSERT_TRUE(images) << images.error().message();
  EXPECT_EQ((*images)->missing(), 1);
  EXPECT_EQ((*images)->lost(), 1);
  EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr("1 missing part left out: " + link_), Not(HasSubstr(webp_))),
                                 AllOf(HasSubstr("1 bad image left out: " + webp_), Not(HasSubstr(link_)))));
}

TEST_F(LeftOutOfFolders, ByEveryVerb) {
  const std::vector<std::string> both = {"--allow-missing", "--max-bad", "1"};
  const auto with_both = [&](std::vector<std::string> words) {
    words.insert(words.end(), both.begin(), both.end());
    return run(words);
  };
  const Ended converted = with_both({"convert", set_, scratch_.file("converted"), "--json"});
  ASSERT_EQ(converted.code, 0) << converted.error;
  const Json report = Json::parse(converted.out);
  EXPECT_EQ(report["missing"], 1);
  EXPECT_THAT(report["missing_parts"].dump(), AllOf(HasSubstr(link_), Not(HasSubstr(webp_))));
  EXPECT_EQ(report["skipped"], 1);
  EXPECT_THAT(report["bad"].dump(), AllOf(HasSubstr(webp_), Not(HasSubstr(link_))));

  const Ended counted = run({"stats", set_, "--allow-missing"});
  ASSERT_EQ(counted.code, 0) << counted.error;
  EXPECT_THAT(counted.out,
              AllOf(HasSubstr("1 missing part left out: " + link_), HasSubstr("1 bad image left out: " + webp_)));
  const Json numbers = Json::parse(run({"stats", set_, "--allow-missing", "--json"}).out);
  EXPECT_EQ(numbers["missing"], 1);
  EXPECT_EQ(numbers["bad"], 1);

  EXPECT_EQ(run({"inspect", set_}).code, 1);
  const Ended shown = with_both({"inspect", set_});
  ASSERT_EQ(shown.code, 0) << shown.error;
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("1 missing part left out:\n  " + link_), HasSubstr("1 bad image left out:\n  " + webp_)));

  const std::vector<std::string> bench = {"bench", set_,        "--batch", "4",        "--image-size",
                                          "16",    "--seconds", "0.01",    "--warmup", "0"};
  EXPECT_THAT(run(bench).error, AllOf(HasSubstr("--max-bad"), HasSubstr("--allow-missing")));
  EXPECT_EQ(with_both(bench).code, 0);
}

TEST_F(LeftOutOfFolders, ByTheNamesThatTheOptionHadBefore) {
  std::filesystem::remove(link_);
  for (const char* name : {"--max-bad", "--skip-bad", "--max-bad-images"}) {
    const Ended converted = run({"convert", set_, scratch_.file(name), name, "1"});
    EXPECT_EQ(converted.code, 0) << converted.error;
  }
  EXPECT_THAT(run({"convert", "--help"}).out, AllOf(HasSubstr("--max-bad"), Not(HasSubstr("--skip-bad"))));
}

// A bad image is told of once, at the end of the first epoch that came upon it.
TEST(LeftOut, BadImagesAreToldOfAtTheEndOfAnEpoch) {
  const Damaged damaged({1, 5});
  auto options = small(damaged.directory());
  options.max_bad = 4;  // padding may reach both again
  options.remainder = Remainder::kPad;
  options.epochs = 3;
  std::vector<std::string> lines;
  options.warn = [&lines](std::string_view line) { lines.emplace_back(line); };
  auto images = open_images(options).value();
  for (std::int64_t left = 1; left > 0;) {
    EXPECT_TRUE(lines.empty());
    left = images->next().value()->left;
  }
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("2 bad images left out"), HasSubstr(damaged.name(1)),
                              HasSubstr(damaged.name(5)), Not(HasSubstr("rank"))));
  drain(*images);
  images.reset();
  EXPECT_EQ(lines.size(), 1U) << "the same images, in later epochs";
}

TEST(LeftOut, BadImagesAreToldOfWhereTheRunEnds) {
  const Damaged damaged({0});
  auto options = small(damaged.directory());
  options.max_bad = 1;
  options.training = false;
  options.pattern = "train-*";
  options.rank = 0;
  options.size = 2;
  std::vector<std::string> lines;
  options.warn = [&lines](std::string_view line) { lines.emplace_back(line); };
  auto images = open_images(options).value();
  ASSERT_TRUE(images->next());
  EXPECT_TRUE(lines.empty());
  images.reset();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("rank 0"), HasSubstr(damaged.name(0))));
}

TEST(LeftOut, DamageFoundByOpeningIsNamed) {
  const Damaged damaged({});
  const auto places = extents_of(damaged.path());
  std::string bytes = read_file(damaged.path());
  bytes[places[2].offset + 1] ^= 4;  // of the length
  put_file(damaged.path(), bytes);
  auto options = small(damaged.directory());
  EXPECT_THAT(open_images(options).error().message(), HasSubstr("--max-bad"));
  options.max_bad = 1;
  std::vector<std::string> lines;
  options.warn = [&lines](std::string_view line) { lines.emplace_back(line); };
  ASSERT_TRUE(open_images(options));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("1 bad image left out: " + damaged.path()),
                              HasSubstr(fmt::format("from byte {} to", places[2].offset))));
}

TEST(LeftOut, TheLimitAloneIsEnough) {
  const Damaged damaged({1, 5});
  auto options = small(damaged.directory());
  options.epochs = 1;
  const auto first_error = [&options] {
    const auto images = open_images(options).value();
    auto batch = images->next();
    while (batch && *batch) batch = images->next();
    return batch ? std::string() : batch.error().message();
  };
  EXPECT_THAT(first_error(), HasSubstr("max_bad=N (--max-bad N)"));
  options.max_bad = 1;
  EXPECT_THAT(first_error(), HasSubstr("2 bad records in epoch 0, more than the 1 allowed by max_bad"));
  options.max_bad = 2;
  options.remainder = Remainder::kKeep;
  EXPECT_EQ(first_error(), "");
  options.max_bad = kAutoBad;
  options.on_error = OnError::kSkip;
  EXPECT_EQ(first_error(), "");
  options.max_bad = 0;
  EXPECT_THAT(first_error(), HasSubstr("max_bad=N (--max-bad N)"));
}

TEST(LeftOut, ATableNamesAllOfItsBadRows) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.file("images"));
  put_file(scratch.file("images/a.png"), "A");
  put_file(scratch.file("images/b.png"), "B");
  put_file(scratch.file("Data_Entry_2017_v2020.csv"),
           "Image Index,Finding Labels\na.png,No Finding\nmissing.png,Mass\nb.png,Hiccup\n");
  put_file(scratch.file("train_val_list.txt"), "a.png\nb.png\nmissing.png\nunlisted.png\n");
  const auto opened = open_image_source({.directory = scratch.path()});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message(), AllOf(HasSubstr("no image missing.png"), HasSubstr("\"Hiccup\""),
                                              HasSubstr("unlisted.png: in the list of the split"),
                                              HasSubstr("--max-bad"), HasSubstr("--allow-missing")));
}

// A record file is read on behind its damage.
TEST(LeftOut, InspectGoesOnWhereItIsTold) {
  const Damaged damaged({1, 5});
  const Ended stopped = run({"inspect", damaged.path()});
  EXPECT_EQ(stopped.code, 1);
  EXPECT_THAT(stopped.error, AllOf(HasSubstr(damaged.name(1)), HasSubstr("--max-bad 1")));
  const Ended all = run({"inspect", damaged.path(), "--max-bad", "2"});
  ASSERT_EQ(all.code, 0) << all.error;
  EXPECT_THAT(all.out, AllOf(HasSubstr("13 records"), HasSubstr("2 bad records left out:\n  " + damaged.name(1)),
                             HasSubstr("record 2 at byte"), Not(HasSubstr("all CRCs are right"))));
}

}  // namespace
}  // namespace xoe::data::test
