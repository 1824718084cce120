// Slots that a rank writes again and again, with nothing else between that would order the ranks.
#include <gtest/gtest.h>

#include <vector>

#include "comm/thread_group.h"

namespace xoe::testing {
namespace {

// The root of broadcasts waits for nobody's data, only for the slot.
TEST(SlotReuse, ARootThatBroadcastsAgainAndAgainOverwritesNothingUnread) {
  constexpr int kRounds = 400;
  for (const std::size_t count : {std::size_t{8}, std::size_t{2000}, std::size_t{400'000}}) {
    run_ranks(3, [count](Communicator& communicator) {
      std::vector<float> values(count);
      for (int round = 0; round < (count > 100'000 ? 20 : kRounds); ++round) {
        if (communicator.rank() == 0) values.assign(count, static_cast<float>(round));
        ASSERT_TRUE(communicator.broadcast(Tensor(values.data(), count), 0));
        ASSERT_EQ(values, std::vector<float>(count, static_cast<float>(round))) << "rank " << communicator.rank();
      }
    });
  }
}

}  // namespace
}  // namespace xoe::testing
