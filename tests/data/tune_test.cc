// How pipelines adjust themselves, and what they say about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "data/tune/cpus.h"
#include "data/tune/tuner.h"
#include "scratch.h"
#include "xoe/data/map_and_batch.h"
#include "xoe/data/report.h"
#include "xoe/data/workshop.h"

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
    Tuner tuner({}, {16, 64});
    const Machine machine{.wanted = wanted};
    const TunerSetting found = settle(tuner, machine, 60);
    EXPECT_GE(100 * found.threads, wanted);
    EXPECT_LT(100 * (found.threads - 2), wanted) << "at most one to spare";
    for (int i = 0; i < 200; ++i) EXPECT_EQ(tuner.step(machine.window(tuner.setting())), found) << "it comes to rest";
  }
}

TEST(Tuner, StaysWithinTheLimits) {
  Tuner tuner({}, {3, 5});
  const TunerSetting found = settle(tuner, {.wanted = 5000}, 100);
  EXPECT_EQ(found.threads, 3);
  EXPECT_LE(found.depth, 5U);
  Tuner least({}, {0, 0});
  EXPECT_EQ(settle(least, {.wanted = 5000}, 10), (TunerSetting{1, 1}));
}

TEST(Tuner, StartsWithTheLeastAndNeverGoesBelow) {
  Tuner tuner({2, 6}, {8, 64});
  EXPECT_EQ(tuner.setting(), (TunerSetting{2, 6}));
  EXPECT_EQ(settle(tuner, {.wanted = 10}, 100), (TunerSetting{2, 6}));
  settle(tuner, {.wanted = 5000}, 100);
  EXPECT_GE(tuner.setting().depth, 6U);
  EXPECT_EQ(Tuner({1, 6}, {8, 4}).setting(), (TunerSetting{1, 4}));
}

TEST(Tuner, TakesBackThreadsThatBringNothing) {
  Tuner tuner({}, {16, 64});
  int above = 0;
  for (int i = 0; i < 2000; ++i) {
    tuner.step(Machine{.wanted = 5000, .cpus = 4}.window(tuner.setting()));
    above += tuner.setting().threads > 4 ? 1 : 0;
  }
  EXPECT_GE(tuner.setting().threads, 4);
  EXPECT_LT(above, 40) << "tries become rare";
}

TEST(Tuner, FollowsAConsumerThatChanges) {
  Tuner tuner({}, {8, 64});
  EXPECT_GE(settle(tuner, {.wanted = 700}, 60).threads, 7);
  EXPECT_LE(settle(tuner, {.wanted = 100}, 200).threads, 3);
  EXPECT_GE(settle(tuner, {.wanted = 700}, 600).threads, 7);
  EXPECT_THAT(tuner.reason(), HasSubstr("waited"));
}

TEST(Tuner, GoesFurtherAheadForBursts) {
  Tuner tuner({}, {2, 10});
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

struct Counted : Job {
  Counted(int n, std::size_t count) : Job(count), number(n), made(count) {}
  int number;
  std::vector<int> made;
};

TEST(Workshop, GivesJobsInOrderWithEveryPieceMadeOnce) {
  for (const bool tune : {false, true})
    for (const int threads : {0, 1, 2, 5}) {
      int pulled = 0;
      Workshop workshop(
          {.threads = threads, .depth = 3, .tune = tune},
          [&]() -> std::unique_ptr<Job> {
            if (pulled == 400) return nullptr;
            ++pulled;
            return std::make_unique<Counted>(pulled, static_cast<std::size_t>(pulled % 5));
          },
          [](Job& job, std::size_t piece, int) { ++static_cast<Counted&>(job).made[piece]; });
      for (int i = 1; i <= 400; ++i) {
        const auto job = workshop.take();
        ASSERT_NE(job, nullptr);
        EXPECT_EQ(static_cast<Counted&>(*job).number, i);
        EXPECT_THAT(static_cast<Counted&>(*job).made, ::testing::Each(1));
      }
      EXPECT_EQ(workshop.take(), nullptr);
      EXPECT_EQ(workshop.take(), nullptr);
      EXPECT_EQ(workshop.stats().taken, 400);
      EXPECT_EQ(workshop.stats().pieces, 800);
    }
}

TEST(Workshop, GoesNoFurtherAheadThanItsDepth) {
  std::atomic<int> pulled = 0;
  int taken = 0;
  Workshop workshop(
      {.threads = 3, .depth = 4}, [&]() -> std::unique_ptr<Job> { return std::make_unique<Counted>(++pulled, 2); },
      [](Job&, std::size_t, int) {});
  for (; taken < 300; ++taken) {
    EXPECT_LE(pulled, taken + 4);
    EXPECT_NE(workshop.take(), nullptr);
  }
}

TEST(Workshop, StartsAsFarAheadAsItIsTold) {
  const auto pull = [] { return std::make_unique<Counted>(0, 1); };
  const auto work = [](Job&, std::size_t, int) {};
  EXPECT_EQ(Workshop({.threads = 1, .depth = 8, .tune = true}, pull, work).stats().depth, 2U);
  EXPECT_EQ(Workshop({.threads = 1, .depth = 8, .tune = true, .least_depth = 5}, pull, work).stats().depth, 5U);
  EXPECT_EQ(Workshop({.threads = 1, .depth = 8, .least_depth = 5}, pull, work).stats().depth, 8U) << "not tuned";
}

TEST(MapAndBatch, StartsAsFarAheadAsItIsTold) {
  const MapInto<std::int64_t> nothing = [](const std::int64_t&, std::span<void* const>, int) { return Status(); };
  const auto batches = map_and_batch<std::int64_t>(batch(indices(9), 3), 3, {{.dtype = DType::kInt64, .shape = {}}},
                                                   nothing, {.depth = 8, .tune = true, .least_depth = 5});
  EXPECT_EQ((*batches)->stats().depth, 5U);
}

TEST(Workshop, CountsTheConsumersTimeWhereThereAreNoThreads) {
  const auto spend = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  Workshop workshop(
      {.threads = 0},
      [&] {
        spend();
        return std::make_unique<Counted>(0, 2);
      },
      [&](Job&, std::size_t, int) { spend(); });
  ASSERT_NE(workshop.take(), nullptr);
  const WorkshopStats stats = workshop.stats();
  EXPECT_GE(stats.pulling, 0.002);
  EXPECT_GE(stats.working, 0.004);
  EXPECT_GE(stats.waited, stats.pulling + stats.working);
}

TEST(Workshop, RestartsWithNobodyAtWork) {
  std::atomic<int> next = 0;
  std::atomic<int> inside = 0;
  Workshop workshop(
      {.threads = 3, .depth = 5, .tune = true},
      [&]() -> std::unique_ptr<Job> { return std::make_unique<Counted>(next++, 3); },
      [&](Job&, std::size_t, int) {
        ++inside;
        std::this_thread::yield();
        --inside;
      });
  for (int round = 0; round < 50; ++round) {
    workshop.restart([&] {
      EXPECT_EQ(inside, 0);
      next = 100 * round;
    });
    for (int i = 0; i < round % 7; ++i) EXPECT_EQ(static_cast<Counted&>(*workshop.take()).number, 100 * round + i);
  }
}

TEST(GivenCpus, AsksAffinityQuotasAndNeighbours) {
  const int all = given_cpus(1, "/nowhere");
  EXPECT_GE(all, 1);
  EXPECT_EQ(given_cpus(all, "/nowhere"), 1);
  EXPECT_EQ(given_cpus(1000, "/nowhere"), 1);
  const Scratch root;
  std::filesystem::create_directories(root.file("proc/self"));
  std::filesystem::create_directories(root.file("sys/fs/cgroup/job/step"));
  put_file(root.file("proc/self/cgroup"), "0::/job/step\n");
  put_file(root.file("sys/fs/cgroup/job/step/cpu.max"), "max 100000\n");
  put_file(root.file("sys/fs/cgroup/job/cpu.max"), "50000 100000\n");
  EXPECT_EQ(given_cpus(1, root.path()), 1) << "the quota of the group above counts";
  put_file(root.file("sys/fs/cgroup/job/cpu.max"), "800000 100000\n");
  EXPECT_EQ(given_cpus(8, root.path()), 1) << "ranks share the quota";
  put_file(root.file("sys/fs/cgroup/job/cpu.max"), "damaged");
  EXPECT_EQ(given_cpus(1, root.path()), all);
}

PipelineReport report_of(double waited, double idle, int threads, int cpus) {
  PipelineReport report;
  report.making = {.threads = threads,
                   .depth = 2,
                   .most_threads = 8,
                   .most_depth = 4,
                   .seconds = 10,
                   .working = 9.0 * threads,
                   .idle = idle,
                   .waited = waited};
  report.steps = {{"read", 1, 1000, 100}, {"decode, resize", 8.0 * threads, 1000, 1000}};
  report.elements = 1000;
  report.cpus = cpus;
  return report;
}

TEST(Explain, NamesTheBottleneckAndWhatWouldHelp) {
  EXPECT_THAT(explain(report_of(0.1, 5, 2, 8)), HasSubstr("The consumer is the bottleneck"));
  EXPECT_THAT(explain(report_of(5, 0, 2, 8)), ::testing::AllOf(HasSubstr("mostly for decode, resize (94 %"),
                                                               HasSubstr("2 more threads would feed it")));
  EXPECT_THAT(explain(report_of(5, 0, 2, 2)), HasSubstr("All 2 CPUs that this process was given are in use"));
  EXPECT_THAT(explain(report_of(3, 8, 2, 8)), HasSubstr("more batches ahead (now 2) would help"));
  EXPECT_THAT(explain(report_of(5, 0, 0, 8)), HasSubstr("the consumer makes the batches itself"));
  EXPECT_EQ(explain(PipelineReport()), "nothing was delivered yet");
  EXPECT_THAT(to_table(report_of(5, 0, 2, 8)), HasSubstr("decode, resize"));
}

}  // namespace
}  // namespace xoe::data
