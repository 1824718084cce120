#include "launch/options/torchrun.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/options/arguments.h"

namespace xoe::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Values = std::map<std::string, std::string, std::less<>>;

constexpr int kCores = 6;

Result<TorchrunWords> translate(std::vector<std::string_view> arguments, const Values& variables = {}, int gpus = 0) {
  return translate_torchrun(arguments, Env(variables), {.gpus = gpus, .cores = kCores, .python = "python"});
}

std::vector<std::string> torchrun_words(std::vector<std::string_view> arguments, const Values& variables = {},
                                        int gpus = 0) {
  auto run = translate(std::move(arguments), variables, gpus);
  return run ? run->words : std::vector<std::string>{run.error().message()};
}

std::string torchrun_refusal(std::vector<std::string_view> arguments) {
  const auto run = translate(std::move(arguments));
  return run ? "accepted" : run.error().message();
}

TEST(Torchrun, ScriptsModulesAndPrograms) {
  EXPECT_THAT(torchrun_words({"train.py", "--nproc-per-node", "2"}),
              ElementsAre("-np", "1", "-H", "localhost:1", "--", "python", "train.py", "--nproc-per-node", "2"));
  EXPECT_THAT(torchrun_words({"--nproc_per_node=2", "-m", "package.train", "-x"}),
              ElementsAre("-np", "2", "-H", "localhost:2", "-m", "package.train", "-x"));
  EXPECT_THAT(torchrun_words({"--nproc", "2", "--no-python", "./program"}),
              ElementsAre("-np", "2", "-H", "localhost:2", "--", "./program"));
  EXPECT_THAT(torchrun_refusal({"--nproc-per-node", "2"}), HasSubstr("no program given"));
  EXPECT_THAT(torchrun_refusal({"-m", "--no-python", "x"}), HasSubstr("choose one"));
}

TEST(Torchrun, RanksOfAHost) {
  const auto ranks = [](std::string_view text, int gpus) {
    return torchrun_words({"--nproc-per-node", text, "train.py"}, {}, gpus)[1];
  };
  EXPECT_EQ(ranks("gpu", 4), "4");
  EXPECT_EQ(ranks("auto", 4), "4");
  EXPECT_EQ(ranks("auto", 0), std::to_string(kCores));
  EXPECT_EQ(ranks("cpu", 4), std::to_string(kCores));
  EXPECT_THAT(torchrun_refusal({"--nproc-per-node", "gpu", "train.py"}), HasSubstr("no GPU"));
  for (const char* text : {"0", "-1", "513", "two", ""})
    EXPECT_THAT(torchrun_refusal({"--nproc-per-node", text, "train.py"}),
                HasSubstr("expected 1 to 512, gpu, cpu or auto"));
}

TEST(Torchrun, SeveralHosts) {
  EXPECT_THAT(
      torchrun_words({"--nnodes=2:2", "--node_rank", "1", "--master-addr", "a", "--master-port", "7", "train.py"}),
      ElementsAre("-np", "1", "--rendezvous", "a:7", "--nodes", "2", "--node-rank", "1", "--", "python", "train.py"));
  EXPECT_THAT(
      torchrun_words({"--nnodes=2", "--rdzv-endpoint", "b:8", "--rdzv-conf", "timeout=9,join_timeout=60", "train.py"}),
      ElementsAre("-np", "1", "--rendezvous", "b:8", "--nodes", "2", "--rendezvous-timeout", "60", "--", "python",
                  "train.py"));
  EXPECT_THAT(torchrun_words({"--nnodes=2", "--standalone", "train.py"}),
              ElementsAre("-np", "1", "-H", "localhost:1", "--", "python", "train.py"));
  EXPECT_THAT(torchrun_words({"--nnodes=2", "--master-addr", "fd00::1", "train.py"}),
              testing::Contains("[fd00::1]:29500"));
  EXPECT_THAT(torchrun_refusal({"--nnodes=2", "train.py"}), HasSubstr("where is host 0"));
  EXPECT_THAT(torchrun_words({"--nnodes=1:4", "--rdzv-endpoint", "b:8", "train.py"}),
              ElementsAre("-np", "1", "--rendezvous", "b:8", "--nodes", "1:4", "--", "python", "train.py"));
  for (const char* text : {"0", "2:1", "x", "1:", ""})
    EXPECT_THAT(torchrun_refusal({"--nnodes", text, "train.py"}), HasSubstr("expected a number of hosts"));
}

TEST(Torchrun, OutputAndBinding) {
  EXPECT_THAT(torchrun_words({"--nproc-per-node=2", "--log-dir", "logs", "-t", "3", "--numa-binding=node", "train.py"}),
              ElementsAre("-np", "2", "-H", "localhost:2", "--output-dir", "logs", "--bind-to", "numa", "--", "python",
                          "train.py"));
  EXPECT_EQ(torchrun_words({"--log-dir", "logs", "-r3", "train.py"}),
            torchrun_words({"--log-dir", "logs", "-r", "3", "train.py"}));
  EXPECT_THAT(torchrun_words({"--log-dir", "logs", "-r", "3", "train.py"}),
              ElementsAre("-np", "1", "-H", "localhost:1", "--output-dir", "logs", "--only-rank", "none", "--",
                          "python", "train.py"));
  EXPECT_THAT(torchrun_words({"--nproc-per-node=4", "--local-ranks-filter", "0,2", "train.py"}),
              ElementsAre("-np", "4", "-H", "localhost:4", "--only-rank", "0,2", "--", "python", "train.py"));
  EXPECT_THAT(torchrun_words({"--nnodes=2", "--node-rank=1", "--rdzv-endpoint=a", "--nproc-per-node=2",
                              "--local-ranks-filter=1", "train.py"}),
              testing::IsSupersetOf({"--only-rank", "3"}));
  EXPECT_THAT(torchrun_refusal({"--nproc-per-node=2", "--local-ranks-filter=2", "train.py"}), HasSubstr("0 to 1"));
  EXPECT_THAT(torchrun_refusal({"-r", "3", "train.py"}), HasSubstr("--log-dir"));
  EXPECT_THAT(torchrun_refusal({"--numa-binding=far", "train.py"}), HasSubstr("expected node, socket"));
}

TEST(Torchrun, RestartsOfAllRanksTogether) {
  EXPECT_THAT(torchrun_words({"--nproc-per-node=4", "--max-restarts", "3", "train.py"}),
              ElementsAre("-np", "4", "-H", "localhost:4", "--restarts", "12", "--", "python", "train.py"));
}

TEST(Torchrun, ItsVariablesStandForOptions) {
  EXPECT_THAT(torchrun_words({"--nproc-per-node=2", "x"},
                             {{"PET_NPROC_PER_NODE", "8"}, {"PET_NO_PYTHON", "1"}, {"PET_MODULE", "0"}}),
              ElementsAre("-np", "2", "-H", "localhost:2", "--", "x"));
}

TEST(Torchrun, WhatHasNoMeaningIsTold) {
  const auto run = translate({"--rdzv-backend", "c10d", "--rdzv_id", "5", "--monitor-interval=1", "train.py"});
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_THAT(run->notes, ElementsAre(HasSubstr("--rdzv-backend"), HasSubstr("--rdzv-id"), HasSubstr("at once")));
  EXPECT_THAT(torchrun_refusal({"--virtual-local-rank", "train.py"}), HasSubstr("LOCAL_RANK"));
  EXPECT_THAT(torchrun_refusal({"--nproc-per-nod3", "2", "train.py"}), HasSubstr("did you mean --nproc-per-node?"));
  EXPECT_THAT(torchrun_refusal({"--rdzv", "2", "train.py"}), HasSubstr("unknown option --rdzv"));
  EXPECT_THAT(torchrun_refusal({"--standalone=yes", "train.py"}), HasSubstr("takes no value"));
  EXPECT_THAT(torchrun_refusal({"--nnodes"}), HasSubstr("needs a value"));
}

TEST(Torchrun, RunTakesItsWords) {
  const auto given = torchrun_words({"--nproc-per-node=4", "--max-restarts=1", "--log-dir=logs",
                                     "--local-ranks-filter=0", "--numa-binding=exclusive", "train.py", "-v"});
  const std::vector<std::string_view> views(given.begin(), given.end());
  const auto run = parse_run_arguments(views);
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->options.size, 4);
  EXPECT_EQ(run->options.restarts, 4);
  EXPECT_THAT(run->options.command, ElementsAre("python", "train.py", "-v"));
}

}  // namespace
}  // namespace xoe::launch
