#include "core/base/stall_timer.h"

#include <gtest/gtest.h>

#include <vector>

namespace xoe {
namespace {

using namespace std::chrono_literals;
using Action = StallTimer::Action;

// The CPU time used so far, as it was told at `told`. A wait begins when the clock begins.
CpuUse use(std::chrono::nanoseconds used, std::chrono::nanoseconds told) { return {used, CpuUse::Time(1h + told)}; }

// When a wait is reported or ended that that is checked every second, by seconds.
struct Seen {
  std::vector<int> warnings;
  int given_up = -1;
};

Seen wait_for(int seconds, const WaitLimits& limits, const std::function<std::chrono::nanoseconds(int second)>& used) {
  StallTimer stall_timer;
  Seen seen;
  for (int second = 0; second <= seconds; ++second) {
    const Action action = stall_timer.check(limits, std::chrono::seconds(second),
                                            [&] { return use(used(second), std::chrono::seconds(second)); });
    if (action == Action::kWarning) seen.warnings.push_back(second);
    if (action == Action::kLimit) {
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

// When the limit is reached where another host tells every `pause` what was so `late` before, from `first` on.
std::chrono::milliseconds given_up_at(std::chrono::milliseconds pause, std::chrono::milliseconds late, double share,
                                      std::chrono::milliseconds first = 0ms) {
  const WaitLimits limits{.warning = 0s, .limit = 4s};
  StallTimer timer;
  for (auto age = 0ms; age < 60s; age += 50ms) {
    const auto told = age - age % pause;
    const auto used = std::chrono::nanoseconds(static_cast<std::int64_t>(share * 1e6) * ((told - late) / 1ms));
    const auto news = [&] { return age < first ? CpuUse(0s, {}) : use(used, told); };
    if (timer.check(limits, age, news) == Action::kLimit) return age;
  }
  return 60s;
}

// Its ranks compute, but the host is so busy that its answers are late.
TEST(StallTimer, OldNewsDoesNotMeanThatARankIsIdle) {
  EXPECT_EQ(given_up_at(700ms, 500ms, 1), 60s);
  EXPECT_EQ(given_up_at(3700ms, 2000ms, 1), 60s);
  EXPECT_EQ(given_up_at(500ms, 100ms, 1, 5s), 60s);
}

// One rank computes, the other waits. The host's answer came while they were looked at: what is known of the first is a
// second older than what is known of the other.
TEST(StallTimer, NewsOfDifferentAgesDoesNotMeanThatARankIsIdle) {
  const WaitLimits limits{.warning = 0s, .limit = 4s};
  StallTimer timer;
  const auto look = [&](std::chrono::seconds age, std::chrono::seconds waiting_at, std::chrono::seconds working_at) {
    return timer.check(limits, age, [&] {
      CpuUse all = use(0s, waiting_at);
      all.add(ProcessActivity{.used = working_at, .at = CpuUse::Time(1h + working_at)});
      return all;
    });
  };
  EXPECT_EQ(timer.check(limits, 2s, [] { return CpuUse(0s, {}); }), Action::kNothing);
  EXPECT_EQ(look(3s, 2s, 3s), Action::kNothing);
  EXPECT_EQ(look(4s, 3s, 3s), Action::kNothing);
  EXPECT_EQ(look(5s, 4s, 4s), Action::kNothing);
}

TEST(StallTimer, AnIdleRankOfAnotherHostIsGivenUp) {
  EXPECT_EQ(given_up_at(50ms, 0ms, 0), 4s);
  EXPECT_LE(given_up_at(3700ms, 2000ms, 0), 8s);
  EXPECT_EQ(given_up_at(100ms, 0ms, 0, 60s), 6s);  // it never answers: another limit later
}

// Ranks that come late leave the rest, which has used less than all of them.
TEST(StallTimer, FewerLateRanksAreNoIdleOnes) {
  const auto used = [](int second) { return std::chrono::seconds(second < 550 ? 1000 : 10) + second * 20ms; };
  EXPECT_EQ(wait_for(5000, {}, used).given_up, -1);
  EXPECT_EQ(wait_for(5000, {}, [](int second) { return second < 570 ? 1000s : 10s; }).given_up, 660);
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
    stall_timer.check(limits, age, [&] { return use(0s, age); });
  }
  EXPECT_EQ(checks, (std::vector<std::chrono::nanoseconds>{10s, 30s, 70s, 80s, 90s, 100s}));
}

}  // namespace
}  // namespace xoe
