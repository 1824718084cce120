// Statistics of repeated measurements, and the counters of an engine.
#include "measure/cli/stats.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "measure/cli/counters.h"
#include "measure/cli/words.h"

namespace xoe::bench {
namespace {

TEST(BenchStats, ASpreadHasStudentsInterval) {
  const std::array values = {10.0, 12.0, 11.0, 13.0, 9.0};
  const Spread spread = spread_of(values);
  EXPECT_EQ(spread.count, 5U);
  EXPECT_DOUBLE_EQ(spread.mean, 11);
  EXPECT_DOUBLE_EQ(spread.deviation, std::sqrt(2.5));
  EXPECT_EQ(spread.lowest, 9);
  EXPECT_EQ(spread.highest, 13);
  // t(4) = 2.776; 2.776 x sqrt(2.5 / 5)
  EXPECT_NEAR(spread.confidence.low, 11 - 1.9629, 1e-4);
  EXPECT_NEAR(spread.confidence.high, 11 + 1.9629, 1e-4);
}

TEST(BenchStats, OneValueHasNoInterval) {
  const Spread spread = spread_of(std::array{3.0});
  EXPECT_EQ(spread.deviation, 0);
  EXPECT_EQ(spread.confidence.low, 3);
  EXPECT_EQ(spread.confidence.high, 3);
}

TEST(BenchStats, StudentsQuantiles) {
  EXPECT_TRUE(std::isinf(student_t(0)));
  EXPECT_EQ(student_t(1), 12.706);
  EXPECT_EQ(student_t(30), 2.042);
  // Of published tables.
  EXPECT_NEAR(student_t(40), 2.021, 2e-3);
  EXPECT_NEAR(student_t(60), 2.000, 2e-3);
  EXPECT_NEAR(student_t(120), 1.980, 2e-3);
}

TEST(BenchStats, TheBootstrapSeesAChangeAndRepeatsItself) {
  const std::array before = {100.0, 101.0, 99.0, 100.5, 99.5};
  const std::array after = {110.0, 111.0, 109.0, 110.5, 109.5};
  const Interval change = bootstrap_change(before, after, 1);
  EXPECT_GT(change.low, 0.09);
  EXPECT_LT(change.high, 0.11);
  const Interval again = bootstrap_change(before, after, 1);
  EXPECT_EQ(change.low, again.low);
  EXPECT_EQ(change.high, again.high);
  const Interval none = bootstrap_change(before, before, 1);
  EXPECT_LT(none.low, 0);
  EXPECT_GT(none.high, 0);
}

TEST(BenchCounters, SumsTheSamplesOfASeries) {
  constexpr const char* kText =
      "# HELP xoe_bytes_total bytes\n# TYPE xoe_bytes_total counter\n"
      "xoe_bytes_total{process_rank=\"0\",kind=\"allreduce\"} 1200\n"
      "xoe_bytes_total{process_rank=\"0\",kind=\"broadcast\"} 7\n"
      "xoe_bytes_total_of_others{process_rank=\"0\",kind=\"allreduce\"} 5\n"
      "xoe_bytes_total{process_rank=\"1\",kind=\"allreduce\"} 30\nxoe_bytes_total{broken";
  EXPECT_EQ(counter_of(kText, "xoe_bytes_total", "kind=\"allreduce\""), 1230U);
  EXPECT_EQ(counter_of(kText, "xoe_bytes_total", "kind=\"alltoall\""), 0U);
  EXPECT_EQ(counter_of("", "xoe_bytes_total", ""), 0U);
}

TEST(BenchWords, FlagsTakeEitherSpelling) {
  const auto read = with_dashes({"xoe", "--batch_size=a_b", "a_b", "-x_y", "--", "--stays_so"});
  EXPECT_EQ(read, (std::vector<std::string>{"xoe", "--batch-size=a_b", "a_b", "-x_y", "--", "--stays_so"}));
}

}  // namespace
}  // namespace xoe::bench
