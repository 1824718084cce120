// What the agent of a Slurm cluster makes of the commands' output.
#include "pool/slurm/agent.h"

#include <gmock/gmock.h>

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

}  // namespace
}  // namespace xoe::pool::slurm
