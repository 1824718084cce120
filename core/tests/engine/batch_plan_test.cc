// plan_batches(): which tensors travel together.
#include <array>

#include <gmock/gmock.h>

#include "core/engine/execute/batch_runner.h"

namespace xoe::engine {
namespace {

using ::testing::ElementsAre;

struct Wanted {
  std::int64_t count;
  OpSpec op = {};
  DType dtype = DType::kFloat32;
};

// The positions in `wanted` of the tensors of each batch.
std::vector<std::vector<std::size_t>> plan(const std::vector<Wanted>& wanted, const FusionLimits& limits) {
  static std::array<std::byte, 4096> memory;
  auto ready = std::make_shared<ReadyOps>();
  for (const Wanted& one : wanted) {
    const TensorArg tensor{memory.data(), memory.data(), one.dtype, {&one.count, 1}};
    ready->push_back(Submission::make({.name = "t", .op = one.op, .tensors = {&tensor, 1}}, "t", 0, 2).value());
  }
  std::vector<std::vector<std::size_t>> batches;
  for (const auto& batch : plan_batches(ready, limits)) {
    auto& places = batches.emplace_back();
    batch->each_submission([&](const Submission& submission) {
      for (std::size_t i = 0; i < ready->size(); ++i)
        if ((*ready)[i].get() == &submission) places.push_back(i);
    });
  }
  return batches;
}

TEST(BatchPlan, ABatchStaysWithinTheThreshold) {
  const std::vector<Wanted> wanted(5, Wanted{.count = 100});  // 400 bytes each
  EXPECT_THAT(plan(wanted, {.threshold = 800, .pack_limit = 400}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_THAT(plan(wanted, {.threshold = 799, .pack_limit = 400}),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2), ElementsAre(3), ElementsAre(4)));
}

TEST(BatchPlan, LargeTensorsTravelAlone) {
  EXPECT_THAT(plan({{.count = 10}, {.count = 101}, {.count = 10}}, {.threshold = 4096, .pack_limit = 400}),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1)));
}

TEST(BatchPlan, OneBatchHasOneOperationAndOneType) {
  EXPECT_THAT(plan({{.count = 1},
                    {.count = 1, .op = {.reduce = ReduceOp::kAverage}},
                    {.count = 1, .dtype = DType::kFloat64},
                    {.count = 1},
                    {.count = 1, .op = {.reduce = ReduceOp::kAverage}},
                    {.count = 1, .op = {.kind = OpKind::kBroadcast}}},
                   {.threshold = 4096, .pack_limit = 4096}),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2), ElementsAre(5)));
}

// What travels as float16 is float16 in the limits, too.
TEST(BatchPlan, BytesAreThoseOnTheWire) {
  const OpSpec halved{.compression = {.kind = Compression::kFloat16}};
  EXPECT_THAT(plan({{.count = 100, .op = halved}, {.count = 100, .op = halved}}, {.threshold = 400, .pack_limit = 200}),
              ElementsAre(ElementsAre(0, 1)));
}

}  // namespace
}  // namespace xoe::engine
