#include "core/engine/telemetry/metrics.h"

#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"

namespace xoe::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Takes `name="value",...` apart; false where that is not what stands there.
bool well_formed_labels(std::string_view labels) {
  while (true) {
    const auto equals = labels.find("=\"");
    if (equals == 0 || equals == std::string_view::npos) return false;
    std::size_t end = equals + 2;
    for (; end < labels.size() && labels[end] != '"'; ++end)
      if (labels[end] == '\\' && (++end == labels.size() || std::string_view("\\\"n").find(labels[end]) > 2))
        return false;
    if (end >= labels.size()) return false;
    if (end + 1 == labels.size()) return true;
    if (labels[end + 1] != ',') return false;
    labels.remove_prefix(end + 2);
  }
}

// Fails on lines that the text format does not allow, and on samples without TYPE and HELP.
void expect_well_formed(const std::string& text) {
  std::istringstream lines(text);
  std::set<std::string> described;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) {
      described.insert(line.substr(2, line.find(' ', 7) - 2));
      continue;
    }
    const auto open = line.find('{');
    const auto close = line.rfind("} ");
    ASSERT_TRUE(open != std::string::npos && close != std::string::npos && open < close) << line;
    EXPECT_TRUE(well_formed_labels(std::string_view(line).substr(open + 1, close - open - 1))) << line;
    EXPECT_TRUE(parse_number(line.substr(close + 2))) << line;
    const std::string name = line.substr(0, open);
    EXPECT_TRUE(described.contains("HELP " + name) && described.contains("TYPE " + name)) << line;
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
