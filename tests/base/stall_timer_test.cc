#include "base/stall_timer.h"

#include <gtest/gtest.h>

#include <vector>

namespace xoe {
namespace {

using namespace std::chrono_literals;
using Due = StallTimer::Due;

// When something is due in a wait that is checked every second, by seconds.
struct Seen {
  std::vector<int> warnings;
  int given_up = -1;
};

Seen wait_for(int seconds, const WaitLimits& limits, const std::function<std::chrono::nanoseconds(int second)>& used) {
  StallTimer stall_timer;
  Seen seen;
  for (int second = 0; second <= seconds; ++second) {
    const Due due = stall_timer.check(limits, std::chrono::seconds(second), [&] { return used(second); });
    if (due == Due::kWarning) seen.warnings.push_back(second);
    if (due == Due::kLimit) {
      seen.given_up = second;
      break;
    }
  }
  return seen;
}

TEST(StallTimer, WarnsWithGrowingPausesAndGivesUp) {
  const Seen seen = wait_for(1000, {}, [](int) { return 5s; });
  EXPECT_EQ(seen.warnings, (std::vector<int>{10, 30, 70, 150, 310}));
  EXPECT_EQ(seen.given_up, 600);
}

TEST(StallTimer, SparesThoseThatCompute) {
  EXPECT_EQ(wait_for(5000, {}, [](int second) { return std::chrono::milliseconds(20 * second); }).given_up, -1);
  const int up = wait_for(5000, {}, [](int second) { return std::chrono::seconds(std::min(second, 2000)); }).given_up;
  EXPECT_GE(up, 2060);
  EXPECT_LE(up, 2121);
  EXPECT_EQ(wait_for(5000, {}, [](int second) { return std::chrono::seconds(std::min(second, 300)); }).given_up, 600);
}

// Another host's answer that comes half a second late looks like a rank that has used nothing since.
TEST(StallTimer, AShortLimitAllowsForLateAnswers) {
  StallTimer stall_timer;
  const WaitLimits limits{.warning = 0s, .limit = 4s};
  const auto told = [](std::chrono::milliseconds age) { return age - age % 700ms; };
  for (auto age = 0ms; age < 30s; age += 50ms)
    ASSERT_EQ(stall_timer.check(limits, age, [&] { return told(age); }), Due::kNothing) << age / 1ms;
  StallTimer idle;
  auto age = 0ms;
  while (age < 30s && idle.check(limits, age, [] { return 5s; }) == Due::kNothing) age += 50ms;
  EXPECT_EQ(age, 4s);
}

TEST(StallTimer, AnExactLimitSparesNobody) {
  const WaitLimits limits{.warning = 0s, .limit = 7s, .spares_computing = false};
  const Seen seen = wait_for(1000, limits, [](int second) { return std::chrono::seconds(second); });
  EXPECT_TRUE(seen.warnings.empty());
  EXPECT_EQ(seen.given_up, 7);
}

TEST(StallTimer, WithoutALimitItWarnsForEver) {
  const Seen seen = wait_for(3000, {.warning = 1s, .limit = 0s}, [](int) { return 0s; });
  EXPECT_EQ(seen.warnings, (std::vector<int>{1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047}));
  EXPECT_EQ(seen.given_up, -1);
}

TEST(StallTimer, SaysWhenToCheck) {
  const WaitLimits limits{.warning = 10s, .limit = 100s};
  StallTimer stall_timer;
  std::vector<std::chrono::nanoseconds> checks;
  for (auto age = stall_timer.next(limits); age <= 100s; age = stall_timer.next(limits)) {
    checks.push_back(age);
    stall_timer.check(limits, age, [] { return 0s; });
  }
  EXPECT_EQ(checks, (std::vector<std::chrono::nanoseconds>{10s, 30s, 70s, 80s, 90s, 100s}));
}

}  // namespace
}  // namespace xoe
