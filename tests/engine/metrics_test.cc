#include "engine/metrics.h"

#include <regex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xoe::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Fails on lines that the text format does not allow, and on samples without TYPE and HELP.
void expect_well_formed(const std::string& text) {
  const std::regex comment(R"(# (HELP|TYPE) ([a-z_]+) .+)");
  const std::regex sample(R"(([a-z_]+)\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)+\} ([0-9.e+-]+))");
  std::istringstream lines(text);
  std::set<std::string> described;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, comment)) {
      described.insert(match[1].str() + match[2].str());
    } else {
      ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
      EXPECT_TRUE(described.contains("HELP" + match[1].str()) && described.contains("TYPE" + match[1].str())) << line;
    }
  }
  EXPECT_TRUE(text.ends_with("\n"));
}

TEST(Metrics, CountsEverything) {
  Metrics metrics(3, 4);
  metrics.operation(OpKind::kAllreduce, 1000);
  metrics.operation(OpKind::kAllreduce, 24);
  metrics.operation(OpKind::kBarrier, 0);
  metrics.batch(1);
  metrics.batch(17);
  metrics.waited_for(2, std::chrono::milliseconds(1500));
  metrics.waited_for(2, std::chrono::milliseconds(500));
  metrics.waited_for(-1, std::chrono::seconds(1));
  metrics.waited_for(4, std::chrono::seconds(1));
  metrics.waited_for(1, std::chrono::seconds(-1));
  metrics.error(Code::kPeerLost);
  metrics.queue_depth(5);
  metrics.stalled(2);
  metrics.knobs({65536, 4096, 8});
  const std::string text = metrics.text();
  expect_well_formed(text);
  for (const char* line : {
           "xoe_operations_total{process_rank=\"3\",kind=\"allreduce\"} 2\n",
           "xoe_operations_total{process_rank=\"3\",kind=\"join\"} 0\n",
           "xoe_bytes_total{process_rank=\"3\",kind=\"allreduce\"} 1024\n",
           "xoe_batches_total{process_rank=\"3\"} 2\n",
           "xoe_fused_tensors_total{process_rank=\"3\"} 17\n",
           "xoe_wait_seconds_total{process_rank=\"3\",rank=\"2\"} 2\n",
           "xoe_errors_total{process_rank=\"3\",code=\"peer_lost\"} 1\n",
           "xoe_errors_total{process_rank=\"3\",code=\"internal\"} 0\n",
           "xoe_queue_depth{process_rank=\"3\"} 5\n",
           "xoe_stalled{process_rank=\"3\"} 2\n",
           "xoe_fusion_threshold_bytes{process_rank=\"3\"} 65536\n",
           "xoe_pack_limit_bytes{process_rank=\"3\"} 4096\n",
           "xoe_in_flight{process_rank=\"3\"} 8\n",
           "# TYPE xoe_stalled gauge\n",
           "# TYPE xoe_errors_total counter\n",
       })
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, Not(HasSubstr(",rank=\"1\"")));
}

TEST(Metrics, LabelsAreEscaped) {
  const Metrics metrics(0, 1, {{"host", "a\"b\\c\nd"}});
  const std::string text = metrics.text();
  expect_well_formed(text);
  EXPECT_THAT(text, HasSubstr(R"(xoe_stalled{process_rank="0",host="a\"b\\c\nd"} 0)"));
}

TEST(Metrics, CountsFromManyThreads) {
  Metrics metrics(0, 2);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&metrics] {
        for (int i = 0; i < 10'000; ++i) {
          metrics.operation(OpKind::kAllgather, 3);
          metrics.batch(2);
          if (i % 1000 == 0) (void)metrics.text();
        }
      });
    }
  }
  EXPECT_THAT(metrics.text(), HasSubstr("xoe_bytes_total{process_rank=\"0\",kind=\"allgather\"} 120000\n"));
  EXPECT_THAT(metrics.text(), HasSubstr("xoe_fused_tensors_total{process_rank=\"0\"} 80000\n"));
}

}  // namespace
}  // namespace xoe::engine
