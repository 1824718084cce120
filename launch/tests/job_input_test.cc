// stdin, and what is refused before anything runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/testing/scratch.h"
#include "launch/tests/launched.h"

namespace xoe::launch {
namespace {

using testing::HasSubstr;

TEST(JobInput, GoesToRank0Only) {
  Launched job(script_arguments(2, "while read -r line; do echo got $line; done; echo end"), Launched::Input::kPipe);
  job.type("one\n");
  EXPECT_TRUE(job.wait_for_out("[0] got one"));
  EXPECT_TRUE(job.wait_for_out("[1] end"));
  job.type("two\n");
  EXPECT_TRUE(job.wait_for_out("[0] got two"));
  job.end_input();
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("[0] end"));
  EXPECT_THAT(ran.out, testing::Not(HasSubstr("[1] got")));
}

struct Refusal {
  std::string name;
  std::vector<std::string> arguments;
  int code;
  std::string message;
};

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, InOneLine) {
  Launched job(GetParam().arguments);
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, GetParam().code);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, HasSubstr(GetParam().message));
  EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
}

INSTANTIATE_TEST_SUITE_P(
    Calls, Refused,
    testing::Values(
        Refusal{"NoRanks", {"run", "-np", "0", "true"}, 2, "-np 0: a job has at least 1 rank"},
        Refusal{"NegativeRanks", {"run", "-np", "-3", "true"}, 2, "-np -3"},
        Refusal{"TooManyRanks", {"run", "-np", "100000", "true"}, 2, "at most 512 ranks run on one host"},
        Refusal{"RanksAreText", {"run", "-np", "two", "true"}, 2, "-np two: expected a number"},
        Refusal{"NoNumber", {"run", "-np"}, 2, "-np needs a value"},
        Refusal{"RanksMissing", {"run", "true"}, 2, "how many ranks"},
        Refusal{"NoProgram", {"run", "-np", "2"}, 2, "no program given"},
        Refusal{"UnknownOption", {"run", "-np", "2", "--timout", "3", "true"}, 2, "did you mean --timeout?"},
        Refusal{"BadEnv", {"run", "-np", "2", "--env", "NAME_OF_NOTHING", "true"}, 2, "NAME_OF_NOTHING=VALUE"},
        Refusal{"OwnVariable", {"run", "-np", "2", "--env", "XOE_RANK=5", "true"}, 2, "sets this variable itself"},
        Refusal{"BadTimeout", {"run", "-np", "2", "--timeout", "soon", "true"}, 2, "expected seconds"},
        Refusal{
            "BadBinding", {"run", "-np", "2", "--bind-to", "node", "true"}, 2, "expected none, core, socket or numa"},
        Refusal{"NoSuchProgram", {"run", "-np", "2", "no-such-program"}, 127, "there is no such program in PATH"},
        Refusal{"NoSuchFile", {"run", "-np", "2", "./no/such"}, 127, "no such file"},
        Refusal{"Folder", {"run", "-np", "2", "/tmp"}, 126, "it is a folder"},
        Refusal{"NotExecutable", {"run", "-np", "2", "/etc/passwd"}, 126, "permission denied"},
        Refusal{
            "OutputDir", {"run", "-np", "2", "--output-dir", "/dev/null/x", "true"}, 125, "--output-dir /dev/null/x"},
        Refusal{"UnknownVerb", {"rum"}, 2, "did you mean run?"},
        Refusal{"StrangeVerb", {"../../bin/true"}, 2, "unknown verb"}),
    [](const auto& one) { return one.param.name; });

TEST(JobInput, NothingRunsWhenSomethingIsWrong) {
  const Scratch scratch;
  const std::string proof = scratch.file("proof");
  Launched job({"run", "-np", "2", "--output-dir", "/dev/null/x", "touch", proof});
  EXPECT_NE(job.wait().code, 0);
  EXPECT_FALSE(std::filesystem::exists(proof));
}

TEST(JobInput, AScriptWithoutAFirstLineRunsInTheShell) {
  const Scratch scratch;
  const std::string script = scratch.file("script");
  std::ofstream(script) << "echo from $0 with $1\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  Launched job({"run", "-np", "1", script, "x"});
  EXPECT_EQ(job.wait().out, "[0] from " + script + " with x\n");
}

TEST(JobInput, AScriptThatNeedsItsInterpreterIsTold) {
  const std::string folder = std::filesystem::current_path();
  std::ofstream("xoe-launch-script.py") << "print(1)\n";
  for (const std::string& name : {std::string("xoe-launch-script.py"), folder + "/xoe-launch-script.py"}) {
    Launched job({"run", "-np", "2", name});
    const auto ran = job.wait();
    EXPECT_THAT(ran.err, HasSubstr("did you mean `python " + name + "`?"));
    EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
  }
  std::filesystem::remove("xoe-launch-script.py");
}

TEST(JobInput, AProgramThatCannotStartEndsTheJob) {
  const Scratch scratch;
  const std::string script = scratch.file("broken");
  std::ofstream(script) << "#!/no/such/interpreter\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  Launched job({"run", "-np", "2", script});
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 127);
  EXPECT_THAT(ran.err, HasSubstr("cannot start rank 0: No such file"));
}

TEST(JobInput, HelpAndVersion) {
  const auto help = Launched({"run", "--help"}).wait();
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, HasSubstr("Examples:"));
  EXPECT_THAT(Launched({"--version"}).wait().out, testing::StartsWith("xoe "));
  EXPECT_THAT(Launched({"--help"}).wait().out, HasSubstr("run"));
}

}  // namespace
}  // namespace xoe::launch
