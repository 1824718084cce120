#include "launch/options/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "core/testing/scratch.h"

namespace xoe::launch {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

Result<RunArguments> parse(std::vector<std::string_view> arguments) { return parse_run_arguments(arguments); }

std::string refusal(std::vector<std::string_view> arguments) {
  const auto run = parse_run_arguments(arguments);
  return run ? "accepted" : run.error().message();
}

TEST(Arguments, AllOptions) {
  const auto run = parse({"-np", "4", "--bind-to", "core", "--output-dir=logs", "--no-tag-output", "--timeout", "1.5",
                          "--grace=0", "--env", "A=1", "--env=B=x=y", "prog", "-np", "9"});
  ASSERT_TRUE(run) << run.error().message();
  const RunOptions& options = run->options;
  EXPECT_EQ(options.size, 4);
  EXPECT_EQ(options.binding, Binding::kCore);
  EXPECT_EQ(options.output_dir, "logs");
  EXPECT_FALSE(options.tag_output);
  EXPECT_EQ(options.timeout, 1500ms);
  EXPECT_EQ(options.grace, 0s);
  EXPECT_THAT(options.env, ElementsAre(testing::Pair("A", "1"), testing::Pair("B", "x=y")));
  EXPECT_THAT(options.command, ElementsAre("prog", "-np", "9"));
}

TEST(Arguments, AModuleTakesTheWordsBehindIt) {
  const auto run = parse({"-np", "2", "-m", "package.train", "--epochs", "3", "-m", "x"});
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->options.size, 2);
  EXPECT_TRUE(run->options.module);
  EXPECT_THAT(run->options.command, ElementsAre("python", "-m", "package.train", "--epochs", "3", "-m", "x"));
  EXPECT_THAT(parse({"--module=m"}).value().options.command, ElementsAre("python", "-m", "m"));
  EXPECT_THAT(parse({"-m", "m", "--", "-np", "3"}).value().options.command,
              ElementsAre("python", "-m", "m", "--", "-np", "3"));
  EXPECT_THAT(refusal({"-np", "2", "-m"}), HasSubstr("-m needs a value"));
  EXPECT_FALSE(parse({"-np", "2", "python", "-m", "m"}).value().options.module);
}

TEST(Arguments, AModuleOfAFileLeavesTheCommandLineAsItIs) {
  const Scratch scratch;
  const std::string path = scratch.file("job.toml");
  std::ofstream(path) << "module = \"train\"\n";
  const auto run = parse({"--config-file", path, "-np", "4", "--timeout", "9", "--epochs-of-the-module"});
  EXPECT_FALSE(run);
  const auto given = parse({"--config-file", path, "-np", "4", "--", "--epochs", "3"});
  ASSERT_TRUE(given) << given.error().message();
  EXPECT_EQ(given->options.size, 4);
  EXPECT_THAT(given->options.command, ElementsAre("python", "-m", "train", "--epochs", "3"));
}

TEST(Arguments, RanksThatAreShown) {
  const auto shown = [](std::string_view text) {
    return parse({"-np", "9", "--only-rank", text, "prog"}).value().options.only_ranks.value();
  };
  EXPECT_THAT(shown("0"), ElementsAre(0));
  EXPECT_THAT(shown("0,4-6,8"), ElementsAre(0, 4, 5, 6, 8));
  EXPECT_THAT(shown("none"), ElementsAre());
  EXPECT_FALSE(parse({"-np", "9", "prog"}).value().options.only_ranks);
  for (const char* text : {"", "-1", "3-1", "a", "0,", "0,,1", "99999999999", "1-", "all"})
    EXPECT_THAT(refusal({"-np", "9", "--only-rank", text, "prog"}), HasSubstr("expected ranks, such as 0")) << text;
}

TEST(Arguments, VariablesFromAFile) {
  const Scratch scratch;
  const std::string path = scratch.file("variables");
  const auto given = [&](std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
    return parse({"--env-file", path, "--env", "B=2", "prog"});
  };
  using testing::Pair;
  const auto run = given(std::string_view("A=x\ny=z\0EMPTY=\0", 15));
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_THAT(run->options.env, ElementsAre(Pair("A", "x\ny=z"), Pair("EMPTY", ""), Pair("B", "2")));
  for (const char* text : {"no sign", "=x"}) EXPECT_THAT(given(text).error().message(), HasSubstr("env -0"));
  std::filesystem::remove(path);
  EXPECT_THAT(refusal({"--env-file", path, "prog"}), HasSubstr("cannot read"));
}

TEST(Arguments, HorovodsFlagsBecomeItsVariables) {
  const auto run =
      parse({"-np", "2", "--fusion-threshold-mb", "32", "--cycle-time-ms=3.5", "--no-hierarchical-allreduce",
             "--autotune", "--no-stall-check", "--timeline-filename", "t.json", "--gloo", "prog"});
  ASSERT_TRUE(run) << run.error().message();
  using testing::Pair;
  EXPECT_THAT(run->options.env,
              ElementsAre(Pair("HOROVOD_FUSION_THRESHOLD", "33554432"), Pair("HOROVOD_CYCLE_TIME", "3.5"),
                          Pair("HOROVOD_HIERARCHICAL_ALLREDUCE", "0"), Pair("HOROVOD_AUTOTUNE", "1"),
                          Pair("HOROVOD_STALL_CHECK_DISABLE", "1"), Pair("HOROVOD_TIMELINE", "t.json")));
  EXPECT_THAT(run->options.notes, ElementsAre(HasSubstr("--gloo has no meaning here")));
  EXPECT_THAT(refusal({"-np", "2", "--max-np", "4", "prog"}), HasSubstr("--max-np"));
  EXPECT_THAT(refusal({"-np", "2", "--fusion-threshold-mb", "x", "prog"}), HasSubstr("megabytes"));
  EXPECT_THAT(refusal({"-np", "2", "--no-fusion-threshold-mb", "prog"}), HasSubstr("unknown option"));
}

TEST(Arguments, OptionsForHosts) {
  const auto run = parse({"-H",
                          "a:4,b",
                          "--map-by=node",
                          "--oversubscribe",
                          "--network-interface",
                          "ib0",
                          "--ssh-port",
                          "23",
                          "--ssh-identity-file",
                          "k",
                          "--ssh-command",
                          "c",
                          "--launch-agent",
                          "l",
                          "--fan-out",
                          "9",
                          "--xoe-path",
                          "/x",
                          "--start-timeout",
                          "3",
                          "--host-timeout",
                          "4",
                          "--no-gpu-binding",
                          "--dry-run",
                          "--check",
                          "--backend",
                          "mpi",
                          "--env",
                          "A",
                          "p"});
  ASSERT_TRUE(run) << run.error().message();
  const HostOptions& where = run->options.where;
  EXPECT_THAT(where.hosts, ElementsAre(remote::Host{.name = "a", .slots = 4}, remote::Host{.name = "b", .slots = 1}));
  EXPECT_EQ(where.map_by, MapBy::kNode);
  EXPECT_TRUE(where.oversubscribe && where.dry_run && where.check && !where.bind_gpus);
  EXPECT_EQ(where.network_interface, "ib0");
  EXPECT_EQ(where.connect.ssh_port, 23);
  EXPECT_EQ(where.fan_out, 9);
  EXPECT_EQ(
      where.connect.ssh_identity_file + where.connect.ssh_command + where.connect.launch_agent + where.connect.xoe_path,
      "kcl/x");
  EXPECT_EQ(where.connect.start_timeout, 3s);
  EXPECT_EQ(where.connect.host_timeout, 4s);
  EXPECT_EQ(run->options.backend, "mpi");
  EXPECT_THAT(run->options.pass_env, ElementsAre("A"));
}

TEST(Arguments, HorovodsNames) {
  const auto run = parse({"-p", "23", "-i", "k", "--network-interfaces", "ib0", "--output-filename", "logs", "p"});
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->options.where.connect.ssh_port, 23);
  EXPECT_EQ(run->options.where.connect.ssh_identity_file, "k");
  EXPECT_EQ(run->options.where.network_interface, "ib0");
  EXPECT_EQ(run->options.output_dir, "logs");
}

TEST(Arguments, Defaults) {
  const auto options = parse({"-n", "1", "prog"}).value().options;
  EXPECT_EQ(options.binding, Binding::kNone);
  EXPECT_TRUE(options.tag_output);
  EXPECT_FALSE(options.timeout);
  EXPECT_EQ(options.grace, 5s);
  EXPECT_TRUE(options.output_dir.empty());
}

TEST(Arguments, TwoDashesEndTheOptions) {
  EXPECT_THAT(parse({"-np", "1", "--", "-odd", "--"}).value().options.command, ElementsAre("-odd", "--"));
}

TEST(Arguments, TheLastWordCounts) {
  EXPECT_TRUE(parse({"-np", "1", "--no-tag-output", "--tag-output", "p"}).value().options.tag_output);
  EXPECT_EQ(parse({"-np", "1", "--np=3", "p"}).value().options.size, 3);
}

TEST(Arguments, HelpNeedsNothingElse) {
  EXPECT_TRUE(parse({"--help"}).value().help);
  EXPECT_TRUE(parse({"-np", "2", "-h"}).value().help);
}

TEST(Arguments, RefusalsSayWhatToDo) {
  EXPECT_THAT(refusal({}), HasSubstr("no program"));
  EXPECT_THAT(refusal({"-H", "a:x", "p"}), HasSubstr("-H a:x: \"a:x\" is not a host"));
  EXPECT_THAT(refusal({"-H", "a", "--hostfile", "f", "p"}), HasSubstr("choose one of them"));
  EXPECT_THAT(refusal({"--map-by", "core", "p"}), HasSubstr("expected slot, node or socket"));
  EXPECT_THAT(refusal({"--ssh-port", "0", "p"}), HasSubstr("1 to 65535"));
  EXPECT_THAT(refusal({"--backend", "smoke", "p"}), HasSubstr("hierarchical"));
  EXPECT_THAT(refusal({"-np"}), HasSubstr("needs a value"));
  EXPECT_THAT(refusal({"-np", "2x", "p"}), HasSubstr("-np 2x"));
  EXPECT_THAT(refusal({"-np", "99999999999", "p"}), HasSubstr("expected a number"));
  EXPECT_THAT(refusal({"--tag-output=yes", "p"}), HasSubstr("takes no value"));
  EXPECT_THAT(refusal({"--env", "=x", "p"}), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(refusal({"--timeout", "0", "p"}), HasSubstr("expected seconds"));
  EXPECT_THAT(refusal({"--timeout", "nan", "p"}), HasSubstr("expected seconds"));
  EXPECT_THAT(refusal({"--grace", "-1", "p"}), HasSubstr("expected seconds"));
  EXPECT_THAT(refusal({"--output-dir", "", "p"}), HasSubstr("expected a folder"));
  EXPECT_THAT(refusal({"--bind-too", "core", "p"}), HasSubstr("did you mean --bind-to?"));
  EXPECT_THAT(refusal({"--zzzzzzzzzz", "p"}), HasSubstr("--help"));
}

}  // namespace
}  // namespace xoe::launch
