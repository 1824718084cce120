// A program of a wheel finds PyTorch, or names the version that is missing.
#include <gmock/gmock.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/testing/scratch.h"
#include "train/cli/trainer_program.h"

namespace xoe::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A folder of PyTorch, as far as it is looked at.
void put_torch(const Scratch& root, const std::string& folder, std::string_view version) {
  fs::create_directories(root.file(folder + "/lib"));
  put_file(root.file(folder + "/lib/libtorch_cpu.so"), "");
  put_file(root.file(folder + "/version.py"),
           fmt::format("from typing import Optional\n__version__: str = '{}'\n", version));
}

// The folder of the programs in site-packages.
std::string programs_of(const Scratch& root) {
  fs::create_directories(root.file("site/xoe/bin"));
  return root.file("site/xoe/bin");
}

// A python3 that prints this.
Env with_python(const Scratch& root, const std::string& said) {
  fs::create_directories(root.file("bin"));
  put_file(root.file("bin/python3"), "#!/bin/sh\n" + said + "\n");
  fs::permissions(root.file("bin/python3"), fs::perms::owner_all);
  return Env({{"PATH", root.file("bin")}});
}

std::string built_for() { return std::string(torch_version()); }

TEST(FindTorch, BesideThePackage) {
  const Scratch root;
  const std::string folder = programs_of(root);
  put_torch(root, "site/torch", built_for() + "+cpu");
  const auto torch = find_torch(folder, Env());
  ASSERT_TRUE(torch) << torch.error().message();
  EXPECT_TRUE(fs::equivalent(*torch, root.file("site/torch")));
}

TEST(FindTorch, WherePythonFindsIt) {
  const Scratch root;
  const std::string folder = programs_of(root);
  put_torch(root, "elsewhere/torch", built_for());
  const auto torch = find_torch(folder, with_python(root, "echo noise; echo " + root.file("elsewhere/torch")));
  ASSERT_TRUE(torch) << torch.error().message();
  EXPECT_EQ(*torch, root.file("elsewhere/torch"));
}

TEST(FindTorch, WithoutOneTheRemedyIsSaid) {
  const Scratch root;
  const std::string folder = programs_of(root);
  for (const Env& env : {Env(), with_python(root, "echo"), with_python(root, "exit 3"),
                         with_python(root, "echo " + root.file("nowhere"))}) {
    const auto torch = find_torch(folder, env);
    ASSERT_FALSE(torch);
    EXPECT_EQ(torch.error().code(), Code::kUnavailable);
    EXPECT_THAT(torch.error().message(), HasSubstr("training needs PyTorch " + built_for().substr(0, 2)));
    EXPECT_THAT(torch.error().message(), HasSubstr("pip install 'torch=="));
  }
}

TEST(FindTorch, AnotherVersionIsRefusedByName) {
  for (const char* const version : {"1.13.1", "2.0.0", "nonsense", ""}) {
    const Scratch root;
    const std::string folder = programs_of(root);
    put_torch(root, "site/torch", version);
    const auto torch = find_torch(folder, Env());
    ASSERT_FALSE(torch) << version;
    EXPECT_THAT(torch.error().message(), HasSubstr("site/torch has "));
    EXPECT_THAT(torch.error().message(), HasSubstr(version));
  }
}

// The same C++ interface.
TEST(FindTorch, AnotherPatchOfTheSameVersionFits) {
  const Scratch root;
  const std::string folder = programs_of(root);
  put_torch(root, "site/torch", built_for().substr(0, built_for().rfind('.')) + ".99+cu130");
  EXPECT_TRUE(find_torch(folder, Env()));
}

}  // namespace
}  // namespace xoe::train
