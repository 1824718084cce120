#include "trace/event_ring.h"

#include <gtest/gtest.h>

#include <vector>

namespace xoe::trace {
namespace {

TimelineEvent event_at(std::int64_t start) {
  TimelineEvent event{};
  event.start_ns = start;
  return event;
}

TEST(EventRing, TakesAsManyAsItHoldsAndRefusesTheNext) {
  EventRing ring(4);
  std::vector<std::int64_t> drained;
  const auto drain = [&] { ring.drain([&](const TimelineEvent& event) { drained.push_back(event.start_ns); }); };
  for (std::int64_t round = 0; round < 3; ++round) {
    for (std::int64_t i = 0; i < 4; ++i) EXPECT_TRUE(ring.push(event_at(10 * round + i)));
    EXPECT_FALSE(ring.push(event_at(99)));
    EXPECT_EQ(ring.size(), 4U);
    drain();
  }
  EXPECT_EQ(drained, (std::vector<std::int64_t>{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23}));
}

}  // namespace
}  // namespace xoe::trace
