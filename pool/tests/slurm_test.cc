// What the agent of a Slurm cluster makes of the commands' output.
#include "pool/slurm/agent.h"

#include <gmock/gmock.h>

#include <utility>

namespace xoe::pool::slurm {
namespace {

TEST(Slurm, GpusThatAreLeftOutAreTold) {
  const auto run = [](const std::vector<std::string>& words) -> Result<std::string> {
    if (words[0] != "scontrol") return std::string();
    return std::string(
        "NodeName=big State=IDLE Gres=gpu:t4:40,gpu:a100:30 GresUsed=gpu:0\nNodeName=usual State=IDLE Gres=gpu:64 "
        "GresUsed=gpu:0\n");
  };
  Agent agent(run, {});
  const auto reports = agent.observe().value();
  ASSERT_EQ(reports.size(), 2U);
  for (const HostReport& report : reports) EXPECT_EQ(report.gpus.size(), 64U);
  EXPECT_EQ(reports[0].problem, "its 70 GPUs are more than the 64 that are reported");
  EXPECT_EQ(reports[1].problem, "");
}

// A job that is not understood is not none: its GPU would be given away, and a lease's job would be made again.
TEST(Slurm, OutputThatCannotBeReadIsAnErrorThatQuotesIt) {
  std::string nodes = "NodeName=n1 State=IDLE Gres=gpu:2\n", jobs, marks;
  const auto run = [&](const std::vector<std::string>& words) -> Result<std::string> {
    if (words[0] == "scontrol") return nodes;
    return words.back() == "--format=%i|%u|%N|%b" ? jobs : marks;
  };
  Agent agent(run, {});
  const auto error = [&] {
    const auto reports = agent.observe();
    return reports ? std::string() : reports.error().message();
  };
  EXPECT_EQ(error(), "") << "there is no job";
  jobs = "squeue: a word to its user\n";
  EXPECT_EQ(error(), "") << "there is no job, which squeue prints something else beside";
  jobs = "11|ann|n1|gres:gpu:1\n12_[1-4]|ann||gres:gpu:1\n";
  marks = "11 xoe-pool-1\n12 N/A\n13 a comment of others\n";
  EXPECT_EQ(error(), "");
  jobs = "<html>busy</html>\n";
  EXPECT_EQ(error(), "squeue prints what cannot be read: <html>busy</html>");
  jobs = "11|ann|n1\n";
  EXPECT_EQ(error(), "squeue prints what cannot be read: 11|ann|n1");
  jobs = "";
  marks = "busy\n";
  EXPECT_EQ(error(), "squeue prints what cannot be read: busy");
  marks = "";
  nodes = "No nodes in the system\n";
  EXPECT_EQ(error(), "scontrol prints what cannot be read: No nodes in the system");
}

// The pool refused the report of a node, and told nothing of its leases.
TEST(Slurm, JobsOfANodeThatThePoolDoesNotKnowStay) {
  std::vector<std::string> changes;
  const auto run = [&](const std::vector<std::string>& words) -> Result<std::string> {
    if (words[0] == "scontrol" && words[1] == "--details")
      return std::string("NodeName=n1 State=IDLE Gres=gpu:2\nNodeName=n2 State=IDLE Gres=gpu:2\n");
    if (words[0] == "squeue" && words.back() == "--format=%i|%u|%N|%b")
      return std::string("11|ann|n1|gres:gpu:1\n12|ann|n2|gres:gpu:1\n13|ann||gres:gpu:1\n");
    if (words[0] == "squeue") return std::string("11 xoe-pool-1\n12 xoe-pool-2\n13 xoe-pool-3\n");
    changes.push_back(words[0] + " " + words[1]);
    return std::string();
  };
  Agent agent(run, {});
  ASSERT_TRUE(agent.observe());
  const Time ends = Time(std::chrono::hours(1));
  const ClusterLease on_n1{.id = 1, .user = "ann", .host = "n1", .gpus = {"slurm:n1:0"}, .ends = ends};
  const ClusterLease on_n2{.id = 2, .user = "ann", .host = "n2", .gpus = {"slurm:n2:1"}, .ends = ends};
  agent.apply({on_n1, on_n2}, {});
  EXPECT_THAT(std::exchange(changes, {}), ::testing::ElementsAre("scontrol update", "scontrol update", "scancel 13"));
  agent.apply({}, {"n2"});
  EXPECT_THAT(std::exchange(changes, {}), ::testing::ElementsAre("scancel 11"));
  const auto reports = agent.observe().value();
  EXPECT_EQ(reports[1].activity[1].processes.at(0).pid, 12) << "the lease's GPU is the one that it was";
  agent.apply({}, {});
  EXPECT_THAT(changes, ::testing::ElementsAre("scancel 11", "scancel 12", "scancel 13"));
}

}  // namespace
}  // namespace xoe::pool::slurm
