#include "launch/options/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/testing/scratch.h"

namespace xoe::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string toml_refusal(std::string_view text) {
  RunArguments run;
  const auto read = read_toml_config(text, "x.toml", run);
  return read ? "accepted" : read.error().message();
}

std::string yaml_refusal(std::string_view text) {
  RunArguments run;
  const auto read = read_yaml_config(text, "x.yaml", run);
  return read ? "accepted" : read.error().message();
}

TEST(ConfigFile, TomlHasTheOptionsNames) {
  RunArguments run;
  const auto read = read_toml_config(
      "np = 4\nhosts = [\"a:4\", \"b:4\"]\nbind-to = \"core\"\nstart-timeout = 2.5\noversubscribe = true\ncheck = "
      "false\n"
      "tag-output = false\n[env]\nA = \"x y\"\nB = 3\n",
      "x.toml", run);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(run.options.size, 4);
  EXPECT_EQ(run.options.where.hosts.size(), 2U);
  EXPECT_EQ(run.options.binding, Binding::kCore);
  EXPECT_EQ(run.options.where.connect.start_timeout, std::chrono::milliseconds(2500));
  EXPECT_TRUE(run.options.where.oversubscribe);
  EXPECT_FALSE(run.options.where.check);
  EXPECT_FALSE(run.options.tag_output);
  EXPECT_THAT(run.options.env, ElementsAre(Pair("A", "x y"), Pair("B", "3")));
}

TEST(ConfigFile, TomlIsStrict) {
  EXPECT_THAT(toml_refusal("np = 4\nbind-too = 1\n"), HasSubstr("x.toml line 2: unknown option --bind-too; did you"));
  EXPECT_THAT(toml_refusal("np = \n"), HasSubstr("x.toml line 1"));
  EXPECT_THAT(toml_refusal("np = -3"), HasSubstr("np -3"));
  EXPECT_THAT(toml_refusal("oversubscribe = 1"), HasSubstr("true or false"));
  EXPECT_THAT(toml_refusal("env = 1"), HasSubstr("expected a table"));
  EXPECT_THAT(toml_refusal("config-file = 'y'"), HasSubstr("does not belong"));
  EXPECT_THAT(toml_refusal("[# cluster\n"), HasSubstr("line 1: Error while parsing key"));
  EXPECT_THAT(toml_refusal("[é]\n"), HasSubstr("x.toml line 1"));
  EXPECT_THAT(toml_refusal("np = \"\"\"\\\né\"\"\""), HasSubstr("np é"));
}

TEST(ConfigFile, HorovodsYaml) {
  RunArguments run;
  const auto read = read_yaml_config(
      "# Horovod\n---\nparams:\n    fusion_threshold_mb: 32  # much\n    cache_capacity: 2048\nautotune:\n    enabled: "
      "True\n"
      "timeline:\n    filename: \"/tmp/a b.json\"\nstall_check:\n    enabled: false\n    warning_time_seconds: null\n",
      "x.yaml", run);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_THAT(run.options.env,
              ElementsAre(Pair("HOROVOD_FUSION_THRESHOLD", "33554432"), Pair("HOROVOD_CACHE_CAPACITY", "2048"),
                          Pair("HOROVOD_AUTOTUNE", "1"), Pair("HOROVOD_TIMELINE", "/tmp/a b.json"),
                          Pair("HOROVOD_STALL_CHECK_DISABLE", "1")));
}

TEST(ConfigFile, YamlIsStrict) {
  EXPECT_THAT(yaml_refusal("params:\n  no_such: 1\n"), HasSubstr("x.yaml line 2: there is no setting no_such"));
  EXPECT_THAT(yaml_refusal("param:\n"), HasSubstr("expected one of the sections"));
  EXPECT_THAT(yaml_refusal("  cache_capacity: 1\n"), HasSubstr("stands in no section"));
  EXPECT_THAT(yaml_refusal("params:\n  cache_capacity: [1]\n"), HasSubstr("plain value"));
  EXPECT_THAT(yaml_refusal("params:\n\tcache_capacity: 1\n"), HasSubstr("spaces"));
  EXPECT_THAT(yaml_refusal("autotune:\n  enabled: maybe\n"), HasSubstr("true or false"));
  EXPECT_THAT(yaml_refusal("params\n"), HasSubstr("name: value"));
}

// Horovod lets the file win or lose by the order of the options.
TEST(ConfigFile, TheCommandLineWinsInAnyOrder) {
  const Scratch scratch;
  const std::string path = scratch.file("config.toml");
  std::ofstream(path) << "np = 4\nhosts = \"a:4\"\n[env]\nA = \"file\"\n";
  for (const bool first : {true, false}) {
    std::vector<std::string_view> words{"-np", "2", "--env", "A=line"};
    const std::vector<std::string_view> config{"--config-file", path};
    words.insert(first ? words.begin() : words.end(), config.begin(), config.end());
    words.emplace_back("prog");
    const auto run = parse_run_arguments(words);
    ASSERT_TRUE(run) << run.error().message();
    EXPECT_EQ(run->options.size, 2);
    EXPECT_EQ(run->options.where.hosts.size(), 1U);
    EXPECT_EQ(run->options.env.back(), std::pair(std::string("A"), std::string("line")));
  }
  std::filesystem::remove(path);
  const std::vector<std::string_view> missing{"--config-file", path, "prog"};
  EXPECT_THAT(parse_run_arguments(missing).error().message(), HasSubstr("cannot read it"));
  const std::vector<std::string_view> folder{"--config-file", "/tmp", "prog"};
  EXPECT_THAT(parse_run_arguments(folder).error().message(), HasSubstr("/tmp: cannot read it: Is a directory"));
}

}  // namespace
}  // namespace xoe::launch
