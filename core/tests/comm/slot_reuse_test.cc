// Slots that are written again while many operations are in flight. A rank that takes part in an operation has read the
// ones before, unless it has started several: then only the count of completed ones says that a slot is free.
#include <gtest/gtest.h>

#include <vector>

#include "core/tests/comm/thread_group.h"

namespace xoe::testing {
namespace {

constexpr int kBroadcasts = 60;
constexpr std::size_t kSlotValues = 2000;  // fits the slots of small operations

// One rank's part: the values of rank 0 in all operations of a round.
void broadcast_many(Communicator& communicator, int round) {
  std::vector<std::vector<float>> values(kBroadcasts, std::vector<float>(kSlotValues));
  std::vector<Handle> handles;
  for (int i = 0; i < kBroadcasts; ++i) {
    auto& mine = values[static_cast<std::size_t>(i)];
    if (communicator.rank() == 0) mine.assign(kSlotValues, static_cast<float>(round * kBroadcasts + i));
    auto handle = communicator.start_broadcast(Tensor(mine.data(), kSlotValues), 0);
    ASSERT_TRUE(handle) << handle.error().to_string();
    handles.push_back(std::move(*handle));
  }
  for (int i = 0; i < kBroadcasts; ++i) {
    ASSERT_TRUE(handles[static_cast<std::size_t>(i)].wait());
    ASSERT_EQ(values[static_cast<std::size_t>(i)],
              std::vector<float>(kSlotValues, static_cast<float>(round * kBroadcasts + i)));
  }
}

TEST(SlotReuse, WithManyBroadcastsInFlightNothingUnreadIsOverwritten) {
  run_ranks(3, [](Communicator& communicator) {
    for (int round = 0; round < 20; ++round) broadcast_many(communicator, round);
  });
}

// The numbers of operations wrap: slots, the count of completed ones and the numbers in headers go on as before.
TEST(SlotReuse, NumbersThatWrapAreNumbersLikeOthers) {
  constexpr int kBefore = 65'400, kAcross = 400;  // the first one is numbered 65,536 below the end
  run_ranks(3, [](Communicator& communicator) {
    for (int i = 0; i < kBefore; ++i) ASSERT_TRUE(communicator.barrier());
    std::vector<float> large(100'000);
    for (int i = 0; i < kAcross; ++i) {
      std::int32_t value = i + communicator.rank();
      ASSERT_TRUE(communicator.allreduce(Tensor(&value, 1)));
      ASSERT_EQ(value, 3 * i + 3);
      if (i % 10 == 0) broadcast_many(communicator, i);
      large.assign(large.size(), static_cast<float>(i + communicator.rank()));
      if (i % 50 == 0) {
        ASSERT_TRUE(communicator.allreduce(Tensor(large.data(), large.size())));
      }
      ASSERT_EQ(large.back(), static_cast<float>(i % 50 == 0 ? 3 * i + 3 : i + communicator.rank()));
    }
    std::vector<std::int32_t> in(7);
    const auto wrong = communicator.allreduce(Tensor(in.data(), communicator.rank() == 0 ? 7 : 6));
    ASSERT_FALSE(wrong);
    EXPECT_TRUE(wrong.error().message().starts_with("allreduce #68")) << wrong.error().message();
  });
}

}  // namespace
}  // namespace xoe::testing
