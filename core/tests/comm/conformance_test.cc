// The conformance suite on the shared-memory backend: sizes {1,2,3,4,7,8}, ranks as threads and as processes, private
// and shared buffers.
#include "core/tests/comm/conformance.h"

#include <mutex>

#include "core/tests/comm/process_group.h"
#include "core/tests/comm/thread_group.h"

namespace xoe::testing {
namespace {

struct Case {
  int size;
  bool shared;
};

class Conformance : public ::testing::TestWithParam<Case> {};

TEST_P(Conformance, RanksAsThreads) {
  const auto [size, shared] = GetParam();
  auto grid = full_grid(size, shared);
  grid.in_rank_order = true;
  run_ranks(size, [&](Communicator& communicator) {
    const auto problem = check_conformance(communicator, grid);
    EXPECT_EQ(problem, "") << "rank " << communicator.rank();
  });
}

TEST_P(Conformance, RanksAsProcesses) {
  const auto [size, shared] = GetParam();
  auto grid = size > 4 ? thin_grid(size, shared) : full_grid(size, shared);
  grid.in_rank_order = true;
  ProcessGroup(size, [&](Communicator& communicator) {
    return check_conformance(communicator, grid);
  }).expect_success();
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const int size : {1, 2, 3, 4, 7, 8})
    for (const bool shared : {false, true}) all.push_back({size, shared});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Shm, Conformance, ::testing::ValuesIn(cases()), [](const auto& test) {
  return std::to_string(test.param.size) + (test.param.shared ? "Shared" : "Private");
});

TEST(ConformanceLimits, SixtyFourRanksOnOneHost) {
  const ConformanceGrid grid{
      {0, 1, 1000}, {DType::kFloat32}, {ReduceOp::kSum}, /*shared=*/false, /*in_rank_order=*/true};
  ProcessGroup(64, [&](Communicator& communicator) { return check_conformance(communicator, grid); }).expect_success();
}

}  // namespace
}  // namespace xoe::testing
