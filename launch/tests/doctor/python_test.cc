// The findings about Python, whose answer a script plays.
#include <gmock/gmock.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/testing/scratch.h"
#include "launch/doctor/checks/python.h"
#include "launch/tests/doctor/findings.h"

namespace xoe::doctor {
namespace {

using ::testing::HasSubstr;

// The answer of python3 of PATH, played by a script.
PythonFacts facts_of(const Scratch& folder, const std::string& script) {
  const std::string path = folder.file("python3");
  put_file(path, "#!/bin/sh\n" + script + "\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return ask_python(Env({{"PATH", folder.path()}}), std::chrono::seconds(20));
}

TEST(Python, TheAnswerIsTheLastLine) {
  const Scratch folder;
  const PythonFacts facts = facts_of(folder, R"(echo '{"version": "1.0.0"}'
echo noise >&2
echo '{"version": "3.11.2", "xoe": "1.2.3", "xoe_path": "/p/xoe", "torch": "2.15.0", "backend": true}')");
  EXPECT_EQ(facts.error, "");
  const Findings all = check_python(facts, "1.2.3", "/p/xoe/bin/xoe-doctor");
  expect_states(
      all, {{"python.package", Severity::kOk}, {"python.torch", Severity::kOk}, {"python.backend", Severity::kOk}});
  EXPECT_THAT(find(all, "python.package").what, HasSubstr("Python 3.11.2"));
  // Another Xoe than the package's.
  EXPECT_EQ(find(check_python(facts, "1.2.4", "/opt/bin/xoe-doctor"), "python.package").severity, Severity::kWarning);
}

TEST(Python, WhatIsMissingIsNoted) {
  const Scratch folder;
  const PythonFacts facts = facts_of(folder, R"(echo '{"version": "3.11.2"}')");
  const Findings all = check_python(facts, "1.2.3", "/env/lib/python3.11/site-packages/xoe/bin/xoe-doctor");
  expect_states(all, {{"python.package", Severity::kNote}, {"python.torch", Severity::kNote}});
  EXPECT_THAT(find(all, "python.package").fix, HasSubstr("belongs to the Python of /env"));
  EXPECT_EQ(all.size(), 2U);
  expect_states(check_python({}, "1.2.3", "p"), {{"python.package", Severity::kNote}});
}

TEST(Python, WhatIsBrokenIsTold) {
  const Scratch folder;
  PythonFacts facts =
      facts_of(folder, R"(echo '{"version": "3.11.2", "xoe_error": "ImportError: x", "torch": "2.3.1"}')");
  Findings all = check_python(facts, "1.2.3", "p");
  expect_states(all, {{"python.package", Severity::kProblem}, {"python.torch", Severity::kWarning}});
  EXPECT_THAT(find(all, "python.package").what, HasSubstr("ImportError: x"));
  EXPECT_THAT(find(all, "python.torch").what, HasSubstr("older than 2.4"));

  facts = {.program = "python3", .version = "3.11.2", .xoe = "1.2.3", .torch = "2.4.1"};
  all = check_python(facts, "1.2.3", "p");
  expect_states(all, {{"python.backend", Severity::kNote}});
  EXPECT_THAT(find(all, "python.backend").fix, HasSubstr("import xoe.torch.distributed"));

  facts = facts_of(folder, "exit 1");
  expect_states(check_python(facts, "1.2.3", "p"), {{"python.package", Severity::kWarning}});
}

TEST(Python, OneThatHangsIsKilled) {
  const Scratch folder;
  const std::string path = folder.file("python3");
  put_file(path, "#!/bin/sh\nexec sleep 1000\n");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  const Env env({{"PATH", folder.path() + ":/usr/bin:/bin"}});
  const PythonFacts facts = ask_python(env, std::chrono::milliseconds(1000));
  EXPECT_THAT(facts.error, HasSubstr("no answer within 1 s"));
}

// An answer of a Python that has nothing but this.
constexpr std::string_view kBare = R"("version": "3.11.2", "prefix": "/env", "base": "/usr/local")";

PythonFacts facts_with(const Scratch& folder, std::string_view members) {
  return facts_of(folder, fmt::format("echo '{{{}{}}}'", kBare, members));
}

Finding finding_of(const PythonFacts& facts, std::string_view id) {
  return find(check_python(facts, "1.2.3", "p"), id);
}

TEST(Python, TheEnvironmentThatIsActiveMustBePythons) {
  const Scratch folder;
  PythonFacts facts = facts_with(folder, "");
  EXPECT_EQ(facts.prefix, "/env");
  EXPECT_EQ(finding_of(facts, "python.interpreter").severity, Severity::kOk);
  facts.environment = "/other";
  EXPECT_EQ(finding_of(facts, "python.interpreter").severity, Severity::kWarning);
  EXPECT_THAT(finding_of(facts, "python.interpreter").fix, HasSubstr("/other/bin/python3"));
  // A link to the environment is the environment.
  facts.prefix = folder.path();
  facts.environment = folder.file("link");
  std::filesystem::create_directory_symlink(folder.path(), facts.environment);
  EXPECT_EQ(finding_of(facts, "python.interpreter").severity, Severity::kOk);
}

// Python takes sys.prefix from PYTHONHOME, so that only the place of its program tells another installation.
TEST(Python, AnotherInstallationOfPythonHomeIsNamed) {
  const Scratch folder;
  PythonFacts facts = facts_with(folder, "");
  EXPECT_EQ(facts.base, "/usr/local");
  facts.home = facts.prefix = "/elsewhere";
  EXPECT_EQ(finding_of(facts, "python.interpreter").severity, Severity::kWarning);
  EXPECT_EQ(finding_of(facts, "python.interpreter").fix, "unset PYTHONHOME");
  facts.home = "/usr/local:/usr/local";
  facts.prefix = "/usr/local";
  EXPECT_EQ(finding_of(facts, "python.interpreter").severity, Severity::kOk);
  facts.environment = "/env";  // it is active, but hidden
  EXPECT_THAT(finding_of(facts, "python.interpreter").fix, HasSubstr("unset PYTHONHOME, which hides environments"));
  facts.environment.clear();
  facts.home = "/elsewhere";
  facts.base.clear();  // not known
  EXPECT_EQ(finding_of(facts, "python.interpreter").severity, Severity::kOk);
}

TEST(Python, VariablesThatKeepPythonFromStartingAreNamed) {
  PythonFacts facts{.program = "python3", .error = "it ended without an answer"};
  EXPECT_EQ(finding_of(facts, "python.package").fix, "run python3 -c 'import xoe, torch'");
  facts.home = "/a";
  EXPECT_EQ(finding_of(facts, "python.package").fix,
            "PYTHONHOME=/a may keep Python from starting: unset PYTHONHOME; then run python3 -c 'import xoe, torch'");
  facts.path = "/b:/c";
  EXPECT_THAT(
      finding_of(facts, "python.package").fix,
      HasSubstr("PYTHONHOME=/a and PYTHONPATH=/b:/c may keep Python from starting: unset PYTHONHOME PYTHONPATH;"));
}

std::string own_path() { return std::getenv("PATH") == nullptr ? "/usr/bin:/bin" : std::getenv("PATH"); }

TEST(Python, ARealOneTellsItsInstallationAndFailsWithAWrongHome) {
  const Scratch folder;
  const PythonFacts facts = ask_python(Env({{"PATH", own_path()}}), std::chrono::seconds(60));
  if (facts.program.empty()) GTEST_SKIP() << "there is no python3 in PATH";
  EXPECT_TRUE(std::filesystem::exists(facts.base + "/bin")) << facts.base;
  const Setting setting("PYTHONHOME", folder.path().c_str());
  const PythonFacts wrong =
      ask_python(Env({{"PATH", own_path()}, {"PYTHONHOME", folder.path()}}), std::chrono::seconds(60));
  EXPECT_NE(wrong.error, "");
  EXPECT_THAT(finding_of(wrong, "python.package").fix, HasSubstr("unset PYTHONHOME; then"));
}

TEST(Python, ModulesOfTheCurrentFolderAreNotTaken) {
  const Scratch folder;
  for (const char* const name : {"json.py", "os.py"}) put_file(folder.file(name), "raise SystemExit(3)\n");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const PythonFacts facts = ask_python(Env({{"PATH", own_path()}}), std::chrono::seconds(60));
  std::filesystem::current_path(before);
  EXPECT_EQ(facts.error, "");
}

TEST(Python, FoldersOfAnotherPythonAreNamed) {
  PythonFacts facts{.program = "python3", .version = "3.11.2", .prefix = "/env"};
  facts.path = "/src:/env/lib/python3.11/site-packages";
  EXPECT_EQ(finding_of(facts, "python.interpreter").severity, Severity::kOk);
  facts.path += ":/users/ada/lib/python3.9/site-packages";
  EXPECT_THAT(finding_of(facts, "python.interpreter").what, HasSubstr("PYTHONPATH has /users/ada/lib/python3.9"));
  for (const char* const folder :
       {"/opt/python-3.11.9/lib", "/usr/lib/python310.zip", "/src/python.tools", "/src/python3.10-old",
        "/env/lib/python3.11t/site-packages", "/src/python3", "/src/python.", "/src/pythont"}) {
    facts.path = folder;
    EXPECT_EQ(finding_of(facts, "python.interpreter").severity, Severity::kOk) << folder;
  }
  facts.path = "/env/lib/python3.13t/site-packages";
  EXPECT_EQ(finding_of(facts, "python.interpreter").severity, Severity::kWarning);
}

TEST(Python, PythonAndPython3OfTwoFoldersAreNoted) {
  const Scratch own;
  const Scratch other;
  const PythonFacts alone = facts_with(own, "");
  EXPECT_EQ(alone.other, "");
  for (const Scratch* const folder : {&own, &other}) {
    std::filesystem::copy_file(own.file("python3"), folder->file("python"));
    std::filesystem::permissions(folder->file("python"), std::filesystem::perms::owner_all);
  }
  const std::string path = other.path() + ":" + own.path();
  const PythonFacts facts = ask_python(Env({{"PATH", path}, {"CONDA_PREFIX", "/env"}}), std::chrono::seconds(20));
  EXPECT_EQ(facts.other, other.file("python"));
  EXPECT_EQ(facts.environment, "/env");
  EXPECT_EQ(finding_of(facts, "python.interpreter").severity, Severity::kNote);
  EXPECT_EQ(ask_python(Env({{"PATH", own.path()}}), std::chrono::seconds(20)).other, "");
}

TEST(Python, TwoPyTorchesAreAWarningAndTwoInOneProcessAProblem) {
  const Scratch folder;
  PythonFacts facts = facts_with(folder, R"(, "torch": "2.4.0", "torches": ["2.4.0 in /a", "2.6.0 in /b"])");
  EXPECT_EQ(finding_of(facts, "python.torches").severity, Severity::kWarning);
  EXPECT_THAT(finding_of(facts, "python.torches").what, HasSubstr("2.4.0 in /a, 2.6.0 in /b"));
  facts.torches.pop_back();
  EXPECT_EQ(finding_of(facts, "python.torches").severity, Severity::kOk);
  facts.loaded_torch = {"/a/libtorch_cpu.so", "/opt/libtorch/lib/libtorch_cpu.so"};
  EXPECT_EQ(finding_of(facts, "python.torches").severity, Severity::kProblem);
}

TEST(Python, AnOldLibstdcxxOfAnEnvironmentIsNamedWithItsRemedy) {
  const Scratch folder;
  PythonFacts facts = facts_with(folder, R"(, "libstdcxx": ["/env/lib/libstdc++.so.6.0.28"])");
  EXPECT_EQ(finding_of(facts, "python.libstdcxx").severity, Severity::kOk);
  facts.libstdcxx.emplace_back("/usr/lib/libstdc++.so.6.0.30");
  EXPECT_EQ(finding_of(facts, "python.libstdcxx").severity, Severity::kWarning);
  facts.libstdcxx.clear();
  facts.libraries = "/opt/old/lib";
  facts.torch_error = "ImportError: /env/lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by /t.so)";
  const Finding missing = finding_of(facts, "python.libstdcxx");
  EXPECT_EQ(missing.severity, Severity::kProblem);
  EXPECT_THAT(missing.what, HasSubstr("a library needs GLIBCXX_3.4.30,"));
  EXPECT_THAT(missing.fix, HasSubstr("LD_LIBRARY_PATH (/opt/old/lib)"));
  for (const auto& [symbol, package] :
       {std::pair("GLIBCXX_3.4.9", "12"), std::pair("GLIBCXX_3.4.30", "12"), std::pair("GLIBCXX_3.4.31", "13"),
        std::pair("GLIBCXX_3.4.32", "13"), std::pair("GLIBCXX_3.4.33", "14"), std::pair("GLIBCXX_3.4.34", "15"),
        std::pair("CXXABI_1.3.13", "12"), std::pair("CXXABI_1.3.14", "13"), std::pair("CXXABI_1.3.15", "14"),
        std::pair("CXXABI_TM_1", "12"), std::pair("GLIBCXX_3.4.99999999999999999999", "12")}) {
    facts.torch_error = fmt::format("libstdc++.so.6: version `{}' not found", symbol);
    EXPECT_THAT(finding_of(facts, "python.libstdcxx").fix, HasSubstr(fmt::format("'libstdcxx-ng>={}'", package)))
        << symbol;
  }
}

// The questions themselves, asked of a real Python with two folders that play PyTorch.
TEST(Python, PyTorchesAreFoundWithoutBeingImported) {
  const Scratch root;
  const auto add = [&root](const std::string& folder, const std::string& version, bool record) {
    std::filesystem::create_directories(root.file(folder + "/torch"));
    put_file(root.file(folder + "/torch/__init__.py"), "__version__ = '" + version + "'\n");
    put_file(root.file(folder + "/torch/version.py"), "__version__ = '" + version + "'\n");
    if (!record) return;
    std::filesystem::create_directories(root.file(folder + "/torch-9.9.dist-info"));
    put_file(root.file(folder + "/torch-9.9.dist-info/METADATA"), "Metadata-Version: 2.1\nName: torch\nVersion: 9.9\n");
  };
  add("first", "2.4.0+cpu", false);
  add("second", "2.6.0", true);
  const std::string path = own_path();
  const std::string folders = root.file("first") + ":" + root.file("second");
  const Setting setting("PYTHONPATH", folders.c_str());
  const PythonFacts facts = ask_python(Env({{"PATH", path}, {"PYTHONPATH", folders}}), std::chrono::seconds(60));
  if (facts.program.empty()) GTEST_SKIP() << "there is no python3 in PATH";
  ASSERT_GE(facts.torches.size(), 3U) << facts.error;
  EXPECT_EQ(facts.torches[0], "2.4.0+cpu in " + root.file("first"));
  EXPECT_EQ(facts.torches[1], "2.6.0 in " + root.file("second"));
  EXPECT_EQ(facts.torches[2], "9.9 in " + root.file("second"));
  EXPECT_EQ(facts.torch, "2.4.0+cpu");
}

}  // namespace
}  // namespace xoe::doctor
