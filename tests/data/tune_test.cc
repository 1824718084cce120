// How pipelines adjust themselves, and what they say about it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include "data/tune/cpu_ledger.h"
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
      for (int i = 0; i < 600; ++i) {
        const auto seen = stages.run(one.setting(), two.setting());
        EXPECT_LE(seen.used, cpus + 0.75) << cpus << " CPUs, " << first << " and " << second << ", window " << i;
        const auto before = std::pair{one.setting(), two.setting()};
        one.step(seen.first);
        two.step(seen.second);
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
  EXPECT_THAT(tuner.reason(), HasSubstr("all stages used 9.0 CPUs, and there are 8"));
}

// Works for so long by the clock of its own CPU time.
void burn(std::chrono::microseconds time) {
  const auto now = [] {
    timespec spent = {};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return std::chrono::seconds(spent.tv_sec) + std::chrono::nanoseconds(spent.tv_nsec);
  };
  for (const auto end = now() + time; now() < end;) continue;
}

TEST(CpuLedger, KnowsWhatEachStageUsed) {
  CpuLedger ledger;
  const int one = 0;
  const int two = 0;
  std::latch burnt(3);
  std::latch end(1);
  const auto work = [&](int milliseconds) {
    burn(std::chrono::milliseconds(milliseconds));
    burnt.count_down();
    end.wait();
  };
  std::vector<std::jthread> threads;
  for (const int milliseconds : {20, 30, 60}) threads.emplace_back(work, milliseconds);
  std::vector<clockid_t> clocks(3);
  for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(::pthread_getcpuclockid(threads[i].native_handle(), &clocks[i]), 0);
  ledger.open(&one, {clocks[0], clocks[1]});
  ledger.open(&two, {clocks[2]});
  burnt.wait();
  EXPECT_NEAR(ledger.use(&one).mine, 0.05, 0.02);
  EXPECT_NEAR(ledger.use(&one).others, 0.06, 0.02);
  EXPECT_NEAR(ledger.use(&two).mine, 0.06, 0.02);
  EXPECT_NEAR(ledger.use(nullptr).others, 0.11, 0.03);
  ledger.choose(&one, [](const CpuLedger::Use&) { return 2; });
  EXPECT_EQ(ledger.use(&two).promised, 2);
  EXPECT_EQ(ledger.use(&one).promised, 0) << "its own";
  ledger.choose(&one, [](const CpuLedger::Use&) { return 0; });
  EXPECT_EQ(ledger.use(&two).promised, 0);
  ledger.close(&one);
  ledger.close(&one);
  EXPECT_NEAR(ledger.use(&two).others, 0.05, 0.02) << "what was used stays used";
  end.count_down();
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

// One stage feeds another, for a consumer that never has enough.
struct Chain {
  explicit Chain(int cpus)
      : first(
            {.threads = 4, .depth = 8, .tune = true, .cpus = cpus}, [] { return std::make_unique<Counted>(0, 1); },
            [](Job&, std::size_t, int) { burn(std::chrono::microseconds(200)); }),
        second(
            {.threads = 4, .depth = 8, .tune = true, .cpus = cpus},
            [this] {
              first.take();
              return std::make_unique<Counted>(0, 1);
            },
            [](Job&, std::size_t, int) { burn(std::chrono::milliseconds(1)); }) {}

  // Whether it comes about that `wanted` holds for a second.
  bool settles(const std::function<bool(int threads)>& wanted) {
    const auto start = std::chrono::steady_clock::now();
    auto since = start;
    for (;;) {
      const auto now = std::chrono::steady_clock::now();
      if (!wanted(first.stats().threads + second.stats().threads)) since = now;
      if (now - since > std::chrono::seconds(1) && now - start > std::chrono::seconds(2)) return true;
      if (now - start > std::chrono::seconds(30)) return false;
      second.take();
    }
  }

  Workshop first;
  Workshop second;
};

TEST(Workshop, StagesOfAProcessShareItsCpus) {
  if (given_cpus(1) < 2) GTEST_SKIP() << "one CPU: a second thread brings nothing anyway";
  EXPECT_TRUE(Chain(1).settles([](int threads) { return threads == 2; })) << "one each";
  EXPECT_TRUE(Chain(0).settles([](int threads) { return threads > 2; })) << "nobody counts";
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
