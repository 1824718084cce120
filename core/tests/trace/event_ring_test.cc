#include "core/trace/event_ring.h"

#include <gtest/gtest.h>

#include <thread>
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

TEST(EventRing, AnEventIsWholeWhenTheOtherThreadSeesIt) {
  constexpr std::int64_t kEvents = 20'000;
  EventRing ring(16);
  const std::jthread recording([&ring] {
    for (std::int64_t i = 0; i < kEvents;)
      if (ring.push(event_at(i))) ++i;
  });
  std::int64_t seen = 0;
  while (seen < kEvents) ring.drain([&](const TimelineEvent& event) { EXPECT_EQ(event.start_ns, seen++); });
}

}  // namespace
}  // namespace xoe::trace
