// The decisions of a Tuner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "data/tune/tuner.h"

namespace xoe::data {
namespace {

using ::testing::HasSubstr;

// A machine that makes `per_thread` jobs a second on each of up to `cpus` threads, and a consumer that takes `wanted`.
struct Machine {
  double per_thread = 100;
  double wanted = 250;
  int cpus = 8;

  TunerWindow window(const TunerSetting& setting) const {
    const double able = per_thread * std::min(setting.threads, cpus);
    const double rate = std::min(able, wanted);
    return {.seconds = 1,
            .waited = able >= wanted ? 0 : 1 - able / wanted,
            .idle = able >= wanted ? setting.threads * (1 - wanted / able) : 0,
            .jobs = rate};
  }
};

TunerSetting settle(Tuner& tuner, const Machine& machine, int windows) {
  for (int i = 0; i < windows; ++i) tuner.step(machine.window(tuner.setting()));
  return tuner.setting();
}

TEST(Tuner, FindsWhatTheConsumerNeedsAndRests) {
  for (const double wanted : {50., 150., 250., 420., 790.}) {
    Tuner tuner({.most = {16, 64}});
    const Machine machine{.wanted = wanted};
    const TunerSetting found = settle(tuner, machine, 60);
    EXPECT_GE(100 * found.threads, wanted);
    EXPECT_LT(100 * (found.threads - 2), wanted) << "at most one to spare";
    for (int i = 0; i < 200; ++i) EXPECT_EQ(tuner.step(machine.window(tuner.setting())), found) << "it comes to rest";
  }
}

TEST(Tuner, StaysWithinTheLimits) {
  Tuner tuner({.most = {3, 5}});
  const TunerSetting found = settle(tuner, {.wanted = 5000}, 100);
  EXPECT_EQ(found.threads, 3);
  EXPECT_LE(found.depth, 5U);
  Tuner least({.most = {0, 0}});
  EXPECT_EQ(settle(least, {.wanted = 5000}, 10), (TunerSetting{1, 1}));
}

TEST(Tuner, StartsWithTheLeastAndNeverGoesBelow) {
  Tuner tuner({.least = {2, 6}, .most = {8, 64}});
  EXPECT_EQ(tuner.setting(), (TunerSetting{2, 6}));
  EXPECT_EQ(settle(tuner, {.wanted = 10}, 100), (TunerSetting{2, 6}));
  settle(tuner, {.wanted = 5000}, 100);
  EXPECT_GE(tuner.setting().depth, 6U);
  EXPECT_EQ(Tuner({.least = {1, 6}, .most = {8, 4}}).setting(), (TunerSetting{1, 4}));
}

TEST(Tuner, TakesBackThreadsThatBringNothing) {
  Tuner tuner({.most = {16, 64}});
  int above = 0;
  for (int i = 0; i < 2000; ++i) {
    tuner.step(Machine{.wanted = 5000, .cpus = 4}.window(tuner.setting()));
    above += tuner.setting().threads > 4 ? 1 : 0;
  }
  EXPECT_GE(tuner.setting().threads, 4);
  EXPECT_LT(above, 40) << "tries become rare";
}

TEST(Tuner, FollowsAConsumerThatChanges) {
  Tuner tuner({.most = {8, 64}});
  EXPECT_GE(settle(tuner, {.wanted = 700}, 60).threads, 7);
  EXPECT_LE(settle(tuner, {.wanted = 100}, 200).threads, 3);
  EXPECT_GE(settle(tuner, {.wanted = 700}, 600).threads, 7);
  EXPECT_THAT(tuner.reason(), HasSubstr("waited"));
}

TEST(Tuner, GoesFurtherAheadForBursts) {
  Tuner tuner({.most = {2, 10}});
  // Threads idle and a consumer that waits all the same, until there are 6 ahead.
  for (int i = 0; i < 40; ++i) {
    const bool enough = tuner.setting().depth >= 6;
    tuner.step({.seconds = 1,
                .waited = enough ? 0.0 : 0.3,
                .idle = 0.5,
                .jobs = 10.0 + 2.0 * static_cast<double>(tuner.setting().depth)});
  }
  EXPECT_EQ(tuner.setting().depth, 6U);
  EXPECT_EQ(tuner.setting().threads, 1);
}

// Two stages on a process's CPUs. The first one's jobs are what the second one works on; each job costs CPU seconds.
struct TwoStages {
  double first = 0.01;
  double second = 0.01;
  double wanted = 1e6;  // jobs a second
  int machine = 64;     // CPUs that are really there

  struct Windows {
    TunerWindow first;
    TunerWindow second;
    double used = 0;  // CPUs
  };
  Windows run(const TunerSetting& one, const TunerSetting& two) const {
    const double able_one = one.threads / first;
    const double able_two = two.threads / second;
    const double rate = std::min({able_one, able_two, wanted, machine / (first + second)});
    // A stage starves its taker as far as it is the slower one, and waits for it otherwise.
    const double two_could = std::min(able_two, wanted);
    const double used_one = rate * first;
    const double used_two = rate * second;
    return {.first = {.seconds = 1,
                      .waited = able_one < two_could ? 1 - rate / two_could : 0,
                      .idle = able_one > rate ? one.threads - used_one : 0,
                      .jobs = rate,
                      .used = used_one,
                      .used_by_others = used_two},
            .second = {.seconds = 1,
                       .waited = two_could < wanted || able_one < wanted ? 1 - rate / wanted : 0,
                       .idle = able_two > rate && wanted <= rate ? two.threads - used_two : 0,
                       .jobs = rate,
                       .input = 1 - std::min(rate / able_two, 1.0),
                       .used = used_two,
                       .used_by_others = used_one},
            .used = used_one + used_two};
  }
};

TEST(Tuner, StagesTogetherUseTheCpusGivenAndNoMore) {
  for (const int cpus : {2, 3, 4, 8, 16})
    for (const auto& [first, second] :
         {std::pair{0.01, 0.01}, {0.001, 0.01}, {0.01, 0.0005}, {0.004, 0.01}, {0.01, 0.03}}) {
      const TwoStages stages{.first = first, .second = second};
      Tuner one({.most = {cpus, 64}, .cpus = cpus});
      Tuner two({.most = {cpus, 64}, .cpus = cpus});
      double used = 0;
      int changes = 0;
      int promised = 0;
      for (int i = 0; i < 600; ++i) {
        auto seen = stages.run(one.setting(), two.setting());
        EXPECT_LE(seen.used, cpus + 0.75) << cpus << " CPUs, " << first << " and " << second << ", window " << i;
        const auto before = std::pair{one.setting(), two.setting()};
        seen.first.used_by_others += promised;
        promised = std::max(one.step(seen.first).threads - before.first.threads, 0);
        seen.second.used_by_others += promised;  // what no clock shows yet
        promised = std::max(two.step(seen.second).threads - before.second.threads, 0);
        if (i < 400) continue;
        used += seen.used / 200;
        changes += before == std::pair{one.setting(), two.setting()} ? 0 : 1;
      }
      EXPECT_LE(changes, 12) << "they rest, and try at times";
      // Of whole threads that fit, no other number would use much more.
      double best = 0;
      for (int a = 1; a <= cpus; ++a)
        for (int b = 1; b <= cpus; ++b)
          if (const double could = stages.run({a, 64}, {b, 64}).used; could <= cpus + 0.5) best = std::max(best, could);
      EXPECT_GT(used, 0.75 * best) << cpus << " CPUs, " << first << " and " << second;
    }
}

TEST(Tuner, PaysBackWhatOthersNeed) {
  Tuner tuner({.most = {8, 64}, .cpus = 8});
  TunerWindow window{.seconds = 1, .waited = 0.9, .jobs = 1};
  for (int i = 0; i < 10; ++i) {
    window.used = tuner.setting().threads;
    window.jobs = 100 * window.used;
    tuner.step(window);
  }
  EXPECT_EQ(tuner.setting().threads, 8);
  window.used_by_others = 5;
  for (int i = 0; i < 40; ++i) {
    window.used = tuner.setting().threads;
    window.jobs = 100 * window.used;
    tuner.step(window);
    EXPECT_GE(tuner.setting().threads, 3);
  }
  EXPECT_EQ(tuner.setting().threads, 3);
  EXPECT_THAT(tuner.reason(), HasSubstr("all stages together used 9.0 CPUs, and 8 were given"));
}

}  // namespace
}  // namespace xoe::data
