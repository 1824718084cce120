// Data sets of images in tar archives.
#include "data/source/formats.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "core/testing/scratch.h"
#include "data/files/tar.h"
#include "data/tests/opened_sources.h"

namespace xoe::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  const auto source = opened({.directory = scratch.path()});
  EXPECT_EQ(source->groups(), 2U);
  EXPECT_THAT(read_all(*source),
              ElementsAre("train-0.tar one 7", "train-0.tar two 0", "train-1.tar one 7", "train-1.tar two 0"));
  EXPECT_EQ(source->name(1), scratch.file("train-0.tar") + ": a.b/2.png at byte 5632");
  EXPECT_EQ(opened({.directory = scratch.path(), .training = false})->records(), 2);
  EXPECT_EQ(opened({.directory = scratch.file("val-0.tar")})->records(), 2);
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
  const auto plain = read_all(*opened({.directory = scratch.path()}));
  ASSERT_EQ(std::system(("gzip " + scratch.file("train-0.tar") + " " + scratch.file("val-0.tar")).c_str()), 0);
  ASSERT_EQ(std::system(("gzip -S .x " + scratch.file("train-1.tar")).c_str()), 0);
  std::filesystem::rename(scratch.file("train-1.tar.x"), scratch.file("train-1.tgz"));
  EXPECT_EQ(detect_source_format({.directory = scratch.path()}).value(), SourceFormat::kTar);
  EXPECT_EQ(detect_source_format({.directory = scratch.file("train-1.tgz")}).value(), SourceFormat::kTar);
  const auto source = opened({.directory = scratch.path()});
  EXPECT_EQ(read_all(*source), plain);
  EXPECT_EQ(source->groups(), 2U);
  EXPECT_FALSE(source->random_access());  // so that shuffling goes through a buffer
  EXPECT_EQ(opened({.directory = scratch.path(), .training = false})->records(), 60);
  // Damage costs the rest of an archive, and nothing of the others.
  std::string bytes = read_file(scratch.file("train-0.tar.gz"));
  bytes.resize(bytes.size() / 2);
  put_file(scratch.file("train-0.tar.gz"), bytes);
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("train-0.tar.gz"));
  const auto rest = opened({.directory = scratch.path(), .on_error = OnError::kSkip});
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
  const auto source = opened(skip);
  EXPECT_THAT(read_all(*source), ElementsAre("two 2", "five 5"));
  EXPECT_EQ(source->lost(), 3);  // 1, 3 and 4
  std::string bytes = read_file(scratch.file("a.tar"));
  bytes[2 * kTarBlock] ^= 1;
  put_file(scratch.file("a.tar"), bytes);
  EXPECT_THAT(error_of({.directory = scratch.path()}).message(), HasSubstr("a.tar: header at byte 1024: the checksum"));
  EXPECT_THAT(read_all(*opened(skip)), ElementsAre("five 5"));
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
  const auto source = opened({.directory = scratch.file("a.tar"), .on_error = OnError::kSkip});
  EXPECT_THAT(read_all(*source), ElementsAre("3 3", "3 3"));
  EXPECT_EQ(source->lost(), 2);
  ASSERT_EQ(std::system((tar + " --dereference --hard-dereference [1-4].*").c_str()), 0);
  EXPECT_EQ(opened({.directory = scratch.file("a.tar")})->records(), 4);
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
  EXPECT_THAT(read_all(*opened({.directory = scratch.path()})), ElementsAre("j 1"));
  put({{"._1.jpg", "m"}, {"1.jpg", "j"}, {"._1.cls", "m"}, {"1.cls", "1"}});  // of macOS
  EXPECT_THAT(read_all(*opened({.directory = scratch.path()})), ElementsAre("j 1"));
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
  const auto source = opened({.directory = scratch.path(), .on_error = OnError::kSkip});
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
    const auto source = opened({.directory = scratch.path(), .threads = threads});
    const auto records = read_all(*source);
    ASSERT_EQ(records.size(), static_cast<std::size_t>(kArchives));
    for (int i = 0; i < kArchives; ++i) EXPECT_EQ(records[static_cast<std::size_t>(i)], fmt::format("{} 1", i));
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace xoe::data
