#include "launch/remote/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/testing/scratch.h"

namespace xoe::remote {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Program : public testing::Test {
 protected:
  Program() {
    for (const char* name : {"first", "second"}) fs::create_directories(folder_ / name);
    make("second/tool", true);
    make("first/data", false);
    fs::create_directories(folder_ / "first/tool");  // a folder of that name hides nothing
    env_ = Env({{"PATH", (folder_ / "first").string() + ":" + (folder_ / "second").string()}});
  }

  void make(const std::string& name, bool executable) {
    std::ofstream(folder_ / name) << "x";
    fs::permissions(folder_ / name, executable ? fs::perms::owner_all : fs::perms::owner_read);
  }

  const Scratch scratch_;
  const fs::path folder_ = scratch_.path();
  Env env_;
};

TEST_F(Program, IsLookedForInPath) {
  EXPECT_EQ(find_program("tool", env_).value(), (folder_ / "second/tool").string());
  const auto missing = find_program("nothing", env_);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::kUnavailable);
}

TEST_F(Program, WithASlashIsTakenAsItIs) {
  const std::string path = (folder_ / "second/tool").string();
  EXPECT_EQ(find_program(path, env_).value(), path);
  EXPECT_EQ(find_program(folder_.string() + "/none", env_).error().code(), Code::kUnavailable);
}

TEST_F(Program, MustBeExecutable) {
  const auto in_path = find_program("data", env_);
  ASSERT_FALSE(in_path);
  EXPECT_EQ(in_path.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(in_path.error().message(), HasSubstr("first/data is not executable"));
  EXPECT_THAT(find_program(folder_.string(), env_).error().message(), HasSubstr("folder"));
}

TEST_F(Program, InThisFolderIsSuggested) {
  const auto before = fs::current_path();
  fs::current_path(folder_ / "second");
  const auto missing = find_program("tool", Env(std::map<std::string, std::string, std::less<>>{{"PATH", "/nowhere"}}));
  fs::current_path(before);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message(), HasSubstr("did you mean ./tool?"));
}

}  // namespace
}  // namespace xoe::remote
