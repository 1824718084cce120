#include "core/trace/summary.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/testing/scratch.h"
#include "core/tests/trace/sample_run.h"
#include "core/trace/merge.h"
#include "core/trace/names.h"

namespace xoe::trace {
namespace {

TEST(TraceStats, OfKnownStretches) {
  std::vector<Stretch> stretches;
  for (std::int64_t i = 1; i <= 100; ++i) stretches.push_back({i * 1000, i * 1000 + i});
  const LengthStats stats = length_stats(stretches);
  EXPECT_EQ(stats.count, 100U);
  EXPECT_EQ(stats.total_ns, 5050);
  EXPECT_EQ(stats.mean_ns, 50);
  EXPECT_EQ(stats.p50_ns, 50);
  EXPECT_EQ(stats.p99_ns, 99);
  EXPECT_EQ(stats.max_ns, 100);
  EXPECT_EQ(length_stats({}).count, 0U);
  const auto merged = joined({{5, 10}, {0, 4}, {6, 7}, {10, 12}, {20, 20}});
  ASSERT_EQ(merged.size(), 3U);
  EXPECT_EQ(total_ns(merged), 4 + 7);
  EXPECT_EQ(common_ns(joined({{0, 10}, {20, 30}}), joined({{5, 25}, {29, 40}})), 5 + 5 + 1);
}

TEST(TraceStats, WithoutOtherStretches) {
  const auto rest = [](std::vector<Stretch> a, std::vector<Stretch> b) {
    std::string text;
    for (const Stretch& each : subtract(a, b)) text += fmt::format("{}-{} ", each.start_ns, each.stop_ns);
    return text;
  };
  EXPECT_EQ(rest({{0, 10}}, {}), "0-10 ");
  EXPECT_EQ(rest({{0, 10}}, {{0, 10}}), "");
  EXPECT_EQ(rest({{0, 10}, {20, 30}}, {{2, 3}, {5, 22}, {25, 25}, {29, 40}}), "0-2 3-5 22-25 25-29 ");
  EXPECT_EQ(rest({{5, 6}}, {{0, 1}, {7, 8}}), "5-6 ");
  EXPECT_EQ(rest({}, {{0, 1}}), "");
}

TEST(TraceSummary, EachMomentCountsOnce) {
  const Scratch scratch;
  const std::string path = scratch.file("t.json");
  std::string events;
  const auto bar = [&events](int lane, std::string_view name, int start, int stop) {
    events += fmt::format(
        R"({{"ph":"M","name":"thread_name","pid":0,"tid":{0},"args":{{"name":"{1}"}}}},
{{"ph":"X","pid":0,"tid":{0},"ts":{2},"dur":{3},"name":"x"}},)",
        lane, name, start, stop - start);
  };
  bar(1, "compute", 0, 40);
  bar(2, "input wait", 35, 50);
  bar(3, "allreduce bucket 0", 30, 60);
  bar(4, "wait for peers", 45, 70);
  bar(5, "checkpoint", 65, 100);
  put_file(path, "[" + events + R"({"ph":"b","pid":0,"ts":68,"cat":"negotiate","id":1,"name":"w"},
{"ph":"e","pid":0,"ts":72,"cat":"negotiate","id":1},{"ph":"b","pid":0,"ts":72,"cat":"queue","id":2,"name":"w"},
{"ph":"e","pid":0,"ts":90,"cat":"queue","id":2}])");
  const auto summary = summarize_trace(path);
  ASSERT_TRUE(summary) << summary.error().message();
  const TimeShares& shares = summary->ranks.at(0).shares;
  EXPECT_EQ(shares.compute_ns, 40'000);
  EXPECT_EQ(shares.input_ns, 10'000);
  EXPECT_EQ(shares.communication_ns, 10'000);
  EXPECT_EQ(shares.waiting_ns, 12'000);
  EXPECT_EQ(shares.rest_ns, 28'000);
}

TEST(TraceNames, WaitedForThereAndBack) {
  for (const std::vector<int>& ranks : {std::vector<int>{}, {3}, {1, 3}, {0, 12, 511}}) {
    EXPECT_EQ(trace::ranks_waited_for(trace::waited_for_text(ranks)), ranks);
  }
  EXPECT_EQ(trace::waited_for_text(std::vector<int>{1, 3}), "waited for ranks 1, 3");
  EXPECT_TRUE(trace::ranks_waited_for("waited for godot").empty());
  EXPECT_TRUE(trace::ranks_waited_for("waited for ranks , -1, 99999999999").empty());
  EXPECT_EQ(trace::ranks_waited_for("waited for ranks 1, 2 and mo..."), std::vector<int>({1}));
}

const TraceRow& row(const std::vector<TraceRow>& rows, std::string_view name) {
  for (const TraceRow& each : rows) {
    if (each.name == name) return each;
  }
  static const TraceRow none;
  return none;
}

TEST(TraceSummary, SaysWhereTheTimeWent) {
  const Scratch scratch;
  const auto paths = test::write_sample(scratch.file("run"), {.steps = 5});
  ASSERT_EQ(paths.size(), 2U);
  MergeOptions options;
  options.inputs = paths;
  options.output = scratch.file("run.json");
  ASSERT_TRUE(merge_traces(options));
  const auto summary = summarize_trace(options.output, 3);
  ASSERT_TRUE(summary) << summary.error().message();
  ASSERT_EQ(summary->ranks.size(), 4U);
  EXPECT_TRUE(summary->info.merged);
  EXPECT_EQ(summary->unfinished, 0U);
  const TraceRow& reduce = row(summary->rows, trace::kReduceLane);
  EXPECT_EQ(reduce.lengths.count, 4U * 5U * 3U);
  EXPECT_EQ(reduce.lengths.max_ns, 2'400'000);
  EXPECT_EQ(reduce.busy_ns, 4 * 5 * 3 * 2'400'000LL);
  EXPECT_EQ(row(summary->rows, trace::kNegotiate).lengths.count, 4U * 5U * 6U);
  EXPECT_TRUE(row(summary->rows, trace::kNegotiate).spans);
  for (const RankSummary& rank : summary->ranks) {
    EXPECT_EQ(rank.host, rank.rank < 2 ? "a" : "b");
    EXPECT_EQ(rank.input_ns, 5 * 1'500'000);
    EXPECT_EQ(rank.overlap.communication_ns, 5 * 3 * 2'400'000);
    EXPECT_GT(rank.overlap.common_ns, 0);
    EXPECT_LT(rank.overlap.common_ns, rank.overlap.communication_ns);
    EXPECT_NEAR(static_cast<double>(rank.wall_ns), static_cast<double>(summary->wall_ns), 1e6);
  }
  ASSERT_EQ(summary->tensors.size(), 3U);
  EXPECT_EQ(summary->tensors[0].tensor, "conv1.bias");
  EXPECT_EQ(summary->tensors[0].lengths.count, 20U);
  ASSERT_FALSE(summary->stragglers.empty());
  EXPECT_EQ(summary->stragglers[0].rank, test::kSlowRank);
  EXPECT_EQ(summary->stragglers[0].count, 3U * 5U * 6U);  // the three others, every time

  // Of one host alone, too.
  const auto host = summarize_trace(paths[0]);
  ASSERT_TRUE(host);
  EXPECT_EQ(host->ranks.size(), 2U);
  EXPECT_EQ(host->ranks[1].overlap.common_ns, summary->ranks[1].overlap.common_ns);
}

TEST(TraceSummary, OfATraceThatACutLeft) {
  const Scratch scratch;
  const auto paths = test::write_sample(scratch.file("run"));
  ASSERT_EQ(paths.size(), 2U);
  const std::string whole = read_file(paths[0]);
  for (std::size_t keep = 0; keep + 1 < whole.size(); keep += 997) {
    put_file(paths[0], std::string_view(whole).substr(0, keep));
    const auto summary = summarize_trace(paths[0]);
    if (keep <= whole.find('\n')) continue;  // no header yet
    ASSERT_TRUE(summary) << keep << summary.error().message();
    EXPECT_LE(summary->unfinished, 1U) << keep;  // a span's two events follow each other
    EXPECT_TRUE(summary->info.cut_at.has_value()) << keep;
  }
}

}  // namespace
}  // namespace xoe::trace
