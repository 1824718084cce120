// Ranges in a profiler for tensors on GPUs.
#include <gmock/gmock.h>

#include "core/tests/engine/heard_ranges.h"
#include "core/tests/nccl/gpu_ranks.h"

namespace xoe::testing {
namespace {

TEST(GpuProfiler, ShowsEachStage) {
  for (const std::string requested : {"nccl", "staged"}) {
    const HeardRanges attached;
    MockMachine machine(2);
    run_gpu_ranks(
        machine, 2,
        [](GpuRank& rank) {
          const std::vector<std::int64_t> shape{1000};
          const OnGpu<float> data(1000, 1.0F);
          const std::vector tensors{in_place(data, shape)};
          for (int i = 0; i < 3; ++i) rank.expect_run({.name = "weight", .tensors = tensors});
        },
        GpuUse{.requested = requested});
    expect_clean(machine);
    const auto heard = attached.read();
    EXPECT_EQ(heard.open, 0u);
    for (const std::string stage : {"negotiate", "queue", "reduce"}) {
      ASSERT_EQ(heard.begun.count(stage + " weight"), 1u) << requested << ": " << stage;
      EXPECT_EQ(heard.begun.at(stage + " weight"), 6) << requested << ": three times on two ranks";
      EXPECT_EQ(heard.bytes.at(stage + " weight"), 4000);
    }
    EXPECT_EQ(heard.begun.count("pack weight") + heard.begun.count("unpack weight"), 0u);
  }
}

}  // namespace
}  // namespace xoe::testing
