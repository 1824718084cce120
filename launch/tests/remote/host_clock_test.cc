#include "launch/remote/host_clock.h"

#include <gtest/gtest.h>

namespace xoe::remote {
namespace {

using namespace std::chrono_literals;

const HostClock::Clock::time_point kStart = HostClock::Clock::time_point() + 1h;

TEST(HostClock, TheQuickestMessageTellsMost) {
  HostClock clock;
  clock.observe(5s, kStart + 300ms);
  EXPECT_EQ(clock.here(5s), kStart + 300ms);
  clock.observe(6s, kStart + 1s + 2ms);
  clock.observe(7s, kStart + 2s + 90ms);
  EXPECT_EQ(clock.here(5s), kStart + 2ms);
  EXPECT_EQ(clock.here(7s), kStart + 2s + 2ms);
}

TEST(HostClock, FollowsAClockThatDrifts) {
  HostClock clock;
  for (int i = 0; i < 3600; ++i) clock.observe(i * 1001ms, kStart + i * 1000ms);
  EXPECT_LT(clock.here(3599 * 1001ms) - (kStart + 3599 * 1000ms), 25ms);
  for (int i = 0; i < 3600; ++i) clock.observe(i * 999ms, kStart + i * 1000ms);
  EXPECT_LT(clock.here(3599 * 999ms), kStart + 3599 * 1000ms + 1ms);
}

}  // namespace
}  // namespace xoe::remote
