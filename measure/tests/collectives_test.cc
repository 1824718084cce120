// Sizes, bandwidths, values and tables of `xoe bench collectives`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "measure/cli/collectives/check_values.h"
#include "measure/cli/collectives/collective_table.h"

namespace xoe::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CollectiveCase four_ranks(CollectiveKind kind, DType dtype = DType::kFloat32, ReduceOp op = ReduceOp::kSum) {
  return collective_case(kind, dtype, op, 0, 1600, 4);
}

TEST(BenchCollectives, SizesAreThoseOfNcclTests) {
  EXPECT_THAT(sizes_between(8, 128, 0, 4), ElementsAre(8U, 32U, 128U));
  EXPECT_THAT(sizes_between(8, 127, 0, 4), ElementsAre(8U, 32U));
  EXPECT_THAT(sizes_between(10, 30, 10, 1), ElementsAre(10U, 20U, 30U));
  EXPECT_THAT(sizes_between(5, 5, 0, 1), ElementsAre(5U));
  EXPECT_THAT(sizes_between(0, 100, 0, 2), ElementsAre(0U));
  EXPECT_EQ(sizes_between(1, SIZE_MAX, 0, 2).size(), 64U);
}

TEST(BenchCollectives, PartsOfAllRanksMakeUpTheSize) {
  const CollectiveCase gather =
      collective_case(CollectiveKind::kAllGather, DType::kFloat32, ReduceOp::kSum, 0, 1000, 3);
  EXPECT_EQ(gather.block, 83U);  // 250 elements among 3 ranks
  EXPECT_EQ(gather.in_count(), 83U);
  EXPECT_EQ(gather.out_count(), 249U);
  EXPECT_EQ(gather.bytes(), 996U);
  EXPECT_EQ(collective_case(CollectiveKind::kAllReduce, DType::kFloat32, ReduceOp::kSum, 0, 1000, 3).block, 250U);
}

TEST(BenchCollectives, BusBandwidthFollowsNcclTests) {
  EXPECT_DOUBLE_EQ(four_ranks(CollectiveKind::kAllReduce).bus_factor(), 1.5);
  for (const auto kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll})
    EXPECT_DOUBLE_EQ(four_ranks(kind).bus_factor(), 0.75);
  EXPECT_DOUBLE_EQ(four_ranks(CollectiveKind::kBroadcast).bus_factor(), 1);
  EXPECT_EQ(collective_case(CollectiveKind::kAllReduce, DType::kInt8, ReduceOp::kSum, 0, 8, 1).bus_factor(), 0);
}

// What a collective without a mistake puts into the output of `rank`.
std::vector<std::byte> right_output(const CollectiveCase& one, int rank) {
  const std::size_t element = dtype_size(one.dtype);
  const auto input_of = [&](int from) {
    std::vector<std::byte> input(one.in_count() * element);
    fill_input(input, one, from);
    return input;
  };
  std::vector<std::byte> out;
  const auto add = [&out](const std::vector<std::byte>& from, std::size_t first, std::size_t bytes) {
    out.insert(out.end(), from.begin() + static_cast<std::ptrdiff_t>(first),
               from.begin() + static_cast<std::ptrdiff_t>(first + bytes));
  };
  const std::size_t part = one.block * element;
  switch (one.kind) {
    case CollectiveKind::kBroadcast: return input_of(one.root);
    case CollectiveKind::kAllGather:
      for (int from = 0; from < one.ranks; ++from) add(input_of(from), 0, part);
      break;
    case CollectiveKind::kAllToAll:
      for (int from = 0; from < one.ranks; ++from) add(input_of(from), part * static_cast<std::size_t>(rank), part);
      break;
    default: break;
  }
  return out;
}

TEST(BenchCollectives, RightValuesPassAndEachWrongOneIsCounted) {
  for (const auto kind : {CollectiveKind::kBroadcast, CollectiveKind::kAllGather, CollectiveKind::kAllToAll}) {
    for (const auto dtype : {DType::kInt8, DType::kFloat16, DType::kBfloat16, DType::kFloat64}) {
      const CollectiveCase one = four_ranks(kind, dtype);
      std::vector<std::byte> out = right_output(one, 2);
      ASSERT_EQ(out.size(), one.out_count() * dtype_size(dtype));
      EXPECT_EQ(count_wrong(out, one, 2), 0U) << collective_name(kind) << dtype_name(dtype);
      out[out.size() - 1] ^= std::byte{0x7f};
      EXPECT_EQ(count_wrong(out, one, 2), 1U);
      // Shifted by one element, as of an offset that is wrong.
      std::vector<std::byte> shifted = right_output(one, 2);
      std::rotate(shifted.begin(), shifted.begin() + static_cast<std::ptrdiff_t>(dtype_size(dtype)), shifted.end());
      EXPECT_GT(count_wrong(shifted, one, 2), one.out_count() / 2);
      fill_garbage(out, dtype);
      EXPECT_EQ(count_wrong(out, one, 2), one.out_count());
    }
  }
}

TEST(BenchCollectives, ReducedValuesAreThoseOfAllRanks) {
  for (const auto op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
    const CollectiveCase one = four_ranks(CollectiveKind::kAllReduce, DType::kFloat32, op);
    std::vector<std::vector<float>> inputs(4, std::vector<float>(one.block));
    for (int rank = 0; rank < 4; ++rank)
      fill_input(std::as_writable_bytes(std::span(inputs[static_cast<std::size_t>(rank)])), one, rank);
    std::vector<float> out = inputs[0];
    for (std::size_t i = 0; i < out.size(); ++i) {
      for (std::size_t rank = 1; rank < 4; ++rank) {
        const float next = inputs[rank][i];
        out[i] = op == ReduceOp::kMin       ? std::min(out[i], next)
                 : op == ReduceOp::kMax     ? std::max(out[i], next)
                 : op == ReduceOp::kProduct ? out[i] * next
                                            : out[i] + next;
      }
      if (op == ReduceOp::kAverage) out[i] /= 4;
    }
    EXPECT_EQ(count_wrong(std::as_bytes(std::span(out)), one, 1), 0U) << reduce_op_name(op);
    out[5] += 1;
    EXPECT_EQ(count_wrong(std::as_bytes(std::span(out)), one, 1), 1U);
    out[6] = NAN;
    EXPECT_EQ(count_wrong(std::as_bytes(std::span(out)), one, 1), 2U);
  }
}

TEST(BenchCollectives, NumbersFitTheirColumns) {
  EXPECT_EQ(fixed_width(45.3, 7), "  45.30");
  EXPECT_EQ(fixed_width(1234.567, 7), "1234.57");
  EXPECT_EQ(fixed_width(123456.7, 7), " 123457");
  EXPECT_EQ(fixed_width(1234567, 7), "1234567");
  EXPECT_EQ(fixed_width(12345678, 7), "1.2e+07");
}

CollectiveReport report_of_two() {
  CollectiveReport report;
  report.backend = "shm";
  report.memory = "private";
  report.low = 1600;
  report.high = 1600;
  report.factor = 2;
  report.rows = {{.one = four_ranks(CollectiveKind::kAllReduce),
                  .out_of_place = CollectiveTiming{.us = 10, .wrong = 0},
                  .in_place = CollectiveTiming{.us = 5, .wrong = 3}},
                 {.one = four_ranks(CollectiveKind::kBroadcast), .in_place = CollectiveTiming{.us = 1, .wrong = {}}}};
  return report;
}

TEST(BenchCollectives, TheTableHasTheColumnsOfNcclTests) {
  const CollectiveReport report = report_of_two();
  EXPECT_THAT(words_of(row_line(report.rows[0])), ElementsAre("1600", "400", "float", "sum", "-1", "10.00", "0.16",
                                                              "0.24", "0", "5.00", "0.32", "0.48", "3"));
  EXPECT_THAT(words_of(row_line(report.rows[1])),
              ElementsAre("1600", "400", "float", "none", "0", "1.00", "1.60", "1.60", "N/A"));
  EXPECT_THAT(head_lines(report), HasSubstr("algbw"));
  EXPECT_THAT(foot_lines(report), HasSubstr("# Out of bounds values : 3 FAILED"));
}

TEST(BenchCollectives, TheJsonHasTheFormOfNcclTests) {
  const auto json = to_json(report_of_two());
  EXPECT_EQ(json["config"]["step_factor"], 2);
  const auto& row = json["results"][0];
  EXPECT_EQ(row["size"], 1600);
  EXPECT_EQ(row["redop"], "sum");
  EXPECT_EQ(row["root"], "    -1");
  EXPECT_DOUBLE_EQ(row["in_place"]["bus_bw"], 0.48);
  EXPECT_EQ(row["in_place"]["nwrong"], 3.0);
  EXPECT_TRUE(json["results"][1]["out_of_place"].is_null());
  EXPECT_TRUE(json["results"][1]["in_place"]["nwrong"].is_null());
  EXPECT_EQ(json["out_of_bounds"]["okay"], "false");
}

}  // namespace
}  // namespace xoe::bench
