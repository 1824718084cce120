// Files and directories that appear whole or not at all, when several write the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/base/output_file.h"
#include "core/testing/scratch.h"
#include "data/cli/output_directory.h"

namespace xoe::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.push_back(entry.path().filename());
  return names;
}

TEST(OutputFile, SeveralOfOneNameDoNotMix) {
  const Scratch scratch;
  auto first = OutputFile::create(scratch.file("a")).value();
  ASSERT_TRUE(first.write("first"));
  auto second = OutputFile::create(scratch.file("a")).value();
  ASSERT_TRUE(second.write("2nd"));
  { const auto given_up = OutputFile::create(scratch.file("a")).value(); }
  ASSERT_TRUE(first.finish());
  EXPECT_EQ(read_file(scratch.file("a")), "first");
  ASSERT_TRUE(second.finish());
  EXPECT_EQ(read_file(scratch.file("a")), "2nd");
  EXPECT_THAT(names_in(scratch.path()), ElementsAre("a"));
}

TEST(OutputFile, NamesMayHaveTheirFullLength) {
  const Scratch scratch;
  std::string umlauts;
  while (umlauts.size() < 254) umlauts += "\u00e4";
  for (const std::string& name : {std::string(255, 'a'), std::string(227, 'b'), umlauts + "c"}) {
    auto file = OutputFile::create(scratch.file(name));
    ASSERT_TRUE(file) << file.error().message();
    ASSERT_TRUE(file->write("text"));
    const auto finished = file->finish();
    ASSERT_TRUE(finished) << finished.error().message();
    EXPECT_EQ(read_file(scratch.file(name)), "text");
  }
}

TEST(OutputFile, ANameThatIsTooLongIsRefusedAtOnce) {
  const Scratch scratch;
  const auto file = OutputFile::create(scratch.file(std::string(256, 'a')));
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message(), HasSubstr("File name too long"));
  EXPECT_THAT(names_in(scratch.path()), ElementsAre());
}

TEST(OutputFile, ANewOneReplacesNone) {
  const Scratch scratch;
  auto first = OutputFile::create(scratch.file("a")).value();
  auto second = OutputFile::create(scratch.file("a")).value();
  ASSERT_TRUE(first.write("first"));
  ASSERT_TRUE(second.write("2nd"));
  EXPECT_TRUE(first.finish_new().value());
  EXPECT_FALSE(second.finish_new().value());
  EXPECT_EQ(read_file(scratch.file("a")), "first");
  EXPECT_THAT(names_in(scratch.path()), ElementsAre("a"));
}

// A directory that is being written stays; one that a killed process left is removed.
TEST(OutputFile, OnlyWhatNobodyWritesIsRemoved) {
  const Scratch scratch;
  put_file(scratch.file(".a.unfinished-0123456789abcdef"), "old");
  auto file = OutputFile::create(scratch.file("a")).value();
  ASSERT_TRUE(file.write("new"));
  EXPECT_EQ(names_in(scratch.path()).size(), 2U);
  for (const std::string& name : names_in(scratch.path())) {
    EXPECT_TRUE(name.starts_with(".a.unfinished-")) << "hidden";
    remove_unfinished(scratch.file(name));
  }
  EXPECT_EQ(names_in(scratch.path()).size(), 1U);
  ASSERT_TRUE(file.finish());
  EXPECT_THAT(names_in(scratch.path()), ElementsAre("a"));
  EXPECT_EQ(read_file(scratch.file("a")), "new");
  remove_unfinished(scratch.file("none"));
}

TEST(OutputDirectory, SeveralOfOneNameDoNotMix) {
  const Scratch scratch;
  auto first = OutputDirectory::create(scratch.file("a")).value();
  put_file(first.path() + "/x", "first");
  {
    const auto second = OutputDirectory::create(scratch.file("a")).value();
    EXPECT_NE(second.path(), first.path());
    put_file(second.path() + "/x", "2nd");
  }
  ASSERT_TRUE(first.finish());
  EXPECT_EQ(read_file(scratch.file("a/x")), "first");
  EXPECT_THAT(names_in(scratch.path()), ElementsAre("a"));
}

TEST(OutputDirectory, NamesMayHaveTheirFullLength) {
  const Scratch scratch;
  std::string umlauts;
  while (umlauts.size() < 254) umlauts += "\u00e4";
  for (const std::string& name : {std::string(255, 'a'), std::string(231, 'b'), umlauts + "c"}) {
    auto made = OutputDirectory::create(scratch.file(name));
    ASSERT_TRUE(made) << made.error().message();
    put_file(made->path() + "/x", "content");
    ASSERT_TRUE(OutputDirectory::create(scratch.file(name))) << "a second writer";
    const auto finished = made->finish();
    ASSERT_TRUE(finished) << finished.error().message();
    EXPECT_EQ(read_file(scratch.file(name + "/x")), "content");
  }
  const auto longer = OutputDirectory::create(scratch.file(std::string(256, 'a')));
  ASSERT_FALSE(longer) << "refused before anything is written";
  EXPECT_THAT(longer.error().message(), HasSubstr("File name too long"));
  EXPECT_EQ(names_in(scratch.path()).size(), 3U);
}

// No process locks them any more, whatever its number was.
TEST(OutputDirectory, WhatKilledProcessesLeftGoes) {
  const Scratch scratch;
  for (const std::string& name :
       {std::string(".a.unfinished-1-0"), ".a.unfinished-" + std::to_string(::getpid()) + "-0"}) {
    std::filesystem::create_directory(scratch.file(name));
    put_file(scratch.file(name) + "/x", "old");
  }
  auto made = OutputDirectory::create(scratch.file("a")).value();
  put_file(made.path() + "/y", "new");
  ASSERT_TRUE(made.finish());
  EXPECT_THAT(names_in(scratch.path()), ElementsAre("a"));
  EXPECT_THAT(names_in(scratch.file("a")), ElementsAre("y"));
}

}  // namespace
}  // namespace xoe::data
