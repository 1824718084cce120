#include "launch/plan/agent_job.h"

#include <gtest/gtest.h>

namespace xoe::launch {
namespace {

AgentJob some_job() {
  return {.host = "nodeA",
          .first_host = "node0",
          .job = "j",
          .secret = std::string("s\0x", 3),
          .store = "tcp:10.0.0.1:4",
          .network_interface = "ib0",
          .backend = "gloo",
          .directory = "/data/a b",
          .command = {"prog", "", "\xff\n"},
          .env = {{"A", "1=2"}, {"B", ""}},
          .ranks = {{.rank = 3, .cross_rank = 1, .cross_size = 2, .device = "GPU-1"},
                    {.rank = 9, .cross_rank = 0, .cross_size = 1}},
          .first = 1,
          .size = 12,
          .binding = Binding::kNuma,
          .by_socket = true,
          .bind_gpus = false,
          .restarts = true,
          .notices = {"aws", "file:/run/x"},
          .host_timeout = std::chrono::milliseconds(1500)};
}

TEST(AgentJob, SurvivesEncoding) {
  const AgentJob job = some_job();
  const AgentJob there = decode_job(encode(job)).value();
  EXPECT_EQ(there.first_host, job.first_host);
  EXPECT_EQ(there.secret, job.secret);
  EXPECT_EQ(there.directory, job.directory);
  EXPECT_EQ(there.command, job.command);
  EXPECT_EQ(there.env, job.env);
  ASSERT_EQ(there.ranks.size(), 2U);
  EXPECT_EQ(there.ranks[0].rank, 3);
  EXPECT_EQ(there.ranks[0].cross_size, 2);
  EXPECT_EQ(there.ranks[0].device, "GPU-1");
  EXPECT_EQ(there.first, 1);
  EXPECT_EQ(there.notices, job.notices);
  EXPECT_EQ(there.binding, Binding::kNuma);
  EXPECT_TRUE(there.by_socket);
  EXPECT_FALSE(there.bind_gpus);
  EXPECT_TRUE(there.restarts);
  EXPECT_EQ(there.host_timeout, job.host_timeout);
  EXPECT_EQ(encode(there), encode(job));
}

TEST(AgentJob, NoPrefixIsAJob) {
  const std::string text = encode(some_job());
  for (std::size_t size = 0; size < text.size(); ++size) EXPECT_FALSE(decode_job(text.substr(0, size))) << size;
  EXPECT_FALSE(decode_job(text + "x"));
}

}  // namespace
}  // namespace xoe::launch
