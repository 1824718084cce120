// The threads and CPUs of pipelines that adjust themselves, and what they say about it.
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
#include <vector>

#include "core/testing/scratch.h"
#include "data/tune/cpu_ledger.h"
#include "data/tune/cpus.h"
#include "xoe/data/map_and_batch.h"
#include "xoe/data/ordered_thread_pool.h"
#include "xoe/data/report.h"

namespace xoe::data {
namespace {

using ::testing::HasSubstr;

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

TEST(OrderedThreadPool, GivesJobsInOrderWithEveryTaskDoneOnce) {
  for (const bool tune : {false, true})
    for (const int threads : {0, 1, 2, 5}) {
      int pulled = 0;
      OrderedThreadPool pool(
          {.threads = threads, .depth = 3, .tune = tune},
          [&]() -> std::unique_ptr<Job> {
            if (pulled == 400) return nullptr;
            ++pulled;
            return std::make_unique<Counted>(pulled, static_cast<std::size_t>(pulled % 5));
          },
          [](Job& job, std::size_t task, int) { ++static_cast<Counted&>(job).made[task]; });
      for (int i = 1; i <= 400; ++i) {
        const auto job = pool.take();
        ASSERT_NE(job, nullptr);
        EXPECT_EQ(static_cast<Counted&>(*job).number, i);
        EXPECT_THAT(static_cast<Counted&>(*job).made, ::testing::Each(1));
      }
      EXPECT_EQ(pool.take(), nullptr);
      EXPECT_EQ(pool.take(), nullptr);
      EXPECT_EQ(pool.stats().taken, 400);
      EXPECT_EQ(pool.stats().tasks, 800);
    }
}

TEST(OrderedThreadPool, GoesNoFurtherAheadThanItsDepth) {
  std::atomic<int> pulled = 0;
  int taken = 0;
  OrderedThreadPool pool(
      {.threads = 3, .depth = 4}, [&]() -> std::unique_ptr<Job> { return std::make_unique<Counted>(++pulled, 2); },
      [](Job&, std::size_t, int) {});
  for (; taken < 300; ++taken) {
    EXPECT_LE(pulled, taken + 4);
    EXPECT_NE(pool.take(), nullptr);
  }
}

TEST(OrderedThreadPool, StartsAsFarAheadAsItIsTold) {
  const auto pull = [] { return std::make_unique<Counted>(0, 1); };
  const auto work = [](Job&, std::size_t, int) {};
  EXPECT_EQ(OrderedThreadPool({.threads = 1, .depth = 8, .tune = true}, pull, work).stats().depth, 2U);
  EXPECT_EQ(OrderedThreadPool({.threads = 1, .depth = 8, .tune = true, .least_depth = 5}, pull, work).stats().depth,
            5U);
  EXPECT_EQ(OrderedThreadPool({.threads = 1, .depth = 8, .least_depth = 5}, pull, work).stats().depth, 8U)
      << "not tuned";
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

  // Whether it comes about that in some second `wanted` holds.
  bool settles(const std::function<bool(int threads, double cpus)>& wanted) {
    double used = CpuLedger::of_process().use(nullptr).others;
    for (int round = 0; round < 30; ++round) {
      const auto start = std::chrono::steady_clock::now();
      double passed = 0;
      while (passed < 1) {
        second.take();
        passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      }
      const double now = CpuLedger::of_process().use(nullptr).others;
      if (round > 2 && wanted(first.stats().threads + second.stats().threads, (now - used) / passed)) return true;
      used = now;
    }
    return false;
  }

  OrderedThreadPool first;
  OrderedThreadPool second;
};

TEST(OrderedThreadPool, StagesOfAProcessShareItsCpus) {
  if (given_cpus(1) < 2) GTEST_SKIP() << "one CPU: a second thread brings nothing anyway";
  // On a machine with other work they may get little, and try more threads.
  EXPECT_TRUE(Chain(1).settles([](int, double cpus) { return cpus <= 1.75; }));
  EXPECT_TRUE(Chain(0).settles([](int threads, double) { return threads > 2; })) << "the CPUs are not counted";
}

TEST(MapAndBatch, StartsAsFarAheadAsItIsTold) {
  const MapInto<std::int64_t> nothing = [](const std::int64_t&, std::span<void* const>, int) { return Status(); };
  const auto batches = map_and_batch<std::int64_t>(batch(indices(9), 3), 3, {{.dtype = DType::kInt64, .shape = {}}},
                                                   nothing, {.depth = 8, .tune = true, .least_depth = 5});
  EXPECT_EQ((*batches)->stats().depth, 5U);
}

TEST(OrderedThreadPool, CountsTheConsumersTimeWhereThereAreNoThreads) {
  const auto spend = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  OrderedThreadPool pool(
      {.threads = 0},
      [&] {
        spend();
        return std::make_unique<Counted>(0, 2);
      },
      [&](Job&, std::size_t, int) { spend(); });
  ASSERT_NE(pool.take(), nullptr);
  const ThreadPoolStats stats = pool.stats();
  EXPECT_GE(stats.pulling, 0.002);
  EXPECT_GE(stats.working, 0.004);
  EXPECT_GE(stats.waited, stats.pulling + stats.working);
}

TEST(OrderedThreadPool, RestartsWhileNoThreadWorks) {
  std::atomic<int> next = 0;
  std::atomic<int> inside = 0;
  OrderedThreadPool pool(
      {.threads = 3, .depth = 5, .tune = true},
      [&]() -> std::unique_ptr<Job> { return std::make_unique<Counted>(next++, 3); },
      [&](Job&, std::size_t, int) {
        ++inside;
        std::this_thread::yield();
        --inside;
      });
  for (int round = 0; round < 50; ++round) {
    pool.restart([&] {
      EXPECT_EQ(inside, 0);
      next = 100 * round;
    });
    for (int i = 0; i < round % 7; ++i) EXPECT_EQ(static_cast<Counted&>(*pool.take()).number, 100 * round + i);
  }
}

TEST(OrderedThreadPool, EndsWithWhatIsDoneSoFar) {
  std::atomic<bool> worked = false;
  std::atomic<int> of_the_second = 0;
  std::atomic<bool> goes_on = false;
  OrderedThreadPool pool(
      {.threads = 2, .depth = 2, .waits = true},
      [number = 0]() mutable -> std::unique_ptr<Job> { return std::make_unique<Counted>(number++, 3); },
      [&](Job& job, std::size_t task, int) {
        const auto& counted = static_cast<const Counted&>(job);
        worked = true;
        if (counted.number > 0 && ++of_the_second > 1) goes_on.wait(false);  // The first job's tasks all end.
        static_cast<Counted&>(job).made[task] = counted.number + 1;
      });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(worked) << "it waits for the first take()";
  EXPECT_EQ(static_cast<Counted&>(*pool.take()).number, 0);
  while (of_the_second < 3) std::this_thread::yield();  // both threads are in a task that does not end yet
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    goes_on = true;
    goes_on.notify_all();
  });
  const auto jobs = pool.end();
  later.join();
  std::size_t done = 0;
  for (const auto& job : jobs) {
    const auto& counted = static_cast<const Counted&>(*job);
    for (std::size_t task = 0; task < 3; ++task)
      EXPECT_EQ(counted.made[task], task < job->done() ? counted.number + 1 : 0);
    done += job->done();
  }
  EXPECT_GE(done, 3U) << "of the six that were begun, three are of the job that was taken";
  EXPECT_EQ(pool.take(), nullptr);
  pool.restart([] {});
  EXPECT_GE(static_cast<Counted&>(*pool.take()).number, 2);
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
