// Hosts as they are: GPUs that get other names, drivers that do not tell all, limits on every way in.
#include <gmock/gmock.h>

#include <cstdlib>
#include <mutex>
#include <tuple>

#include "pool/core/command_queue.h"
#include "pool/core/drift.h"
#include "pool/core/limits.h"
#include "pool/core/wall_clock.h"
#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class World : public PoolTest {
 protected:
  explicit World(Policy policy = {.waiting_timeout = std::chrono::hours(24)}) : PoolTest(policy) {}

  static Time lease_expiry_of(CommandQueue& queue, std::int64_t id) {
    Time expires = {};
    queue.read([&](Pool& pool) { expires = pool.lease(id).value().expires; });
    return expires;
  }
};

// --- leases that come and go ---

// XOE_SOAK=N: so many.
TEST_F(World, LeasesThatHaveEndedLeaveNothingInMemory) {
  const char* const soak = std::getenv("XOE_SOAK");
  const int leases = soak == nullptr ? 300 : std::atoi(soak);
  for (int i = 0; i < leases; ++i) {
    const auto id = acquire(ann_, {.gpus = 1 + i % 4, .purpose = "a short one"});
    ASSERT_TRUE(id) << id.error().message();
    now_ += std::chrono::seconds(1);
    turn([&] { ASSERT_TRUE(pool_.release(ann_, *id, {}, "done")); });
    if (i % 50 == 0) turn([&] { ASSERT_TRUE(pool_.report(report_of("a", 4))); });
  }
  EXPECT_THAT(pool_.state().leases, IsEmpty());
  EXPECT_FALSE(pool_.next_event() && *pool_.next_event() <= now_) << "nothing of them is due any more";
  ASSERT_TRUE(pool_.abandon());
  EXPECT_THAT(pool_.state().leases, IsEmpty()) << "a server that starts again does not read them";
}

// --- one name, two machines ---

TEST_F(World, TheFirstMachineOfANameStays) {
  auto first = report_of_instances("m", 0, 2), second = report_of_instances("m", 7, 1);
  first.machine = "boot-1/1";
  second.machine = "boot-2/1";
  turn([&] { ASSERT_TRUE(pool_.report(first)); });
  for (int i = 0; i < 3; ++i) {
    now_ += std::chrono::seconds(2);
    turn([&] {
      const auto refused = pool_.report(second);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code(), Code::kResourceExhausted);
      EXPECT_THAT(refused.error().message(), HasSubstr("another machine reports as host m to this pool"));
    });
    turn([&] { ASSERT_TRUE(pool_.report(first)); });
  }
  EXPECT_TRUE(pool_.state().gpus.contains("MIG-m-0"));
  EXPECT_FALSE(pool_.state().gpus.contains("MIG-m-7"));
  EXPECT_THAT(pool_.state().hosts.at("m").problem, HasSubstr("another machine reports under this name"));
  const auto events = pool_.store().events(0, 10000).value();
  EXPECT_EQ(std::ranges::count(events, "host-name-taken", &Event::kind), 1) << "told once, not with each report";
}

TEST_F(World, ManyMachinesOfANameAreToldOnce) {
  auto first = report_of_instances("m", 0, 2);
  first.machine = "boot-1/1";
  turn([&] { ASSERT_TRUE(pool_.report(first)); });
  for (int i = 0; i < 100; ++i) {
    now_ += std::chrono::seconds(2);
    turn([&] { ASSERT_TRUE(pool_.report(first)); });
    for (const char* const machine : {"boot-2/1", "boot-3/1"}) {
      auto other = report_of_instances("m", 7, 1);
      other.machine = machine;
      turn([&] { ASSERT_FALSE(pool_.report(other)); });
    }
  }
  const auto events = pool_.store().events(0, 10000).value();
  EXPECT_EQ(std::ranges::count(events, "host-name-taken", &Event::kind), 1);
}

TEST_F(World, AFailedTurnForgetsNoMachine) {
  auto first = report_of_instances("m", 0, 2), second = report_of_instances("m", 7, 1);
  first.machine = "boot-1/1";
  second.machine = "boot-2/1";
  turn([&] { ASSERT_TRUE(pool_.report(first)); });
  ASSERT_TRUE(pool_.abandon());
  turn([&] { EXPECT_FALSE(pool_.report(second)); });
}

TEST_F(World, AClockThatIsSetMovesWhatIsKnownOfHosts) {
  auto first = report_of_instances("m", 0, 2), second = report_of_instances("m", 7, 1);
  first.machine = "boot-1/1";
  second.machine = "boot-2/1";
  turn([&] { ASSERT_TRUE(pool_.report(first)); });
  first.gpus.pop_back();
  first.activity.pop_back();
  const auto set_clock = [&](Span by) {
    now_ += by;
    ASSERT_TRUE(pool_.begin(now_, ClockJump{.by = by, .accepted = true}));
    ASSERT_TRUE(pool_.report(first));
    ASSERT_TRUE(pool_.finish());
  };
  turn([&] { ASSERT_TRUE(pool_.report(first)); });
  turn([&] { ASSERT_FALSE(pool_.report(second)); });
  set_clock(-std::chrono::hours(2));
  now_ += minutes(1);
  turn([&] { ASSERT_TRUE(pool_.report(first)); });
  EXPECT_EQ(pool_.state().hosts.at("m").problem, "") << "the other machine was silent for a minute";
  set_clock(std::chrono::hours(48));
  EXPECT_TRUE(pool_.state().gpus.contains("MIG-m-1")) << "it was missing for a minute, not for two days";
}

TEST_F(World, AClockThatIsSetInATurnThatFailsMovesOnce) {
  const auto id = acquire(ann_, {.duration = std::chrono::hours(100)}).value();
  const Time heard = pool_.state().hosts.at("a").heard, expires = lease(id).expires;
  const Span by = -std::chrono::hours(2);
  now_ += by;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(pool_.begin(now_, ClockJump{.by = by, .accepted = true}));
    ASSERT_TRUE(pool_.abandon());
  }
  ASSERT_TRUE(pool_.begin(now_, ClockJump{.by = by, .accepted = true}));
  ASSERT_TRUE(pool_.finish());
  EXPECT_EQ(pool_.state().hosts.at("a").heard, heard + by);
  EXPECT_EQ(lease(id).expires, expires + by);
}

// What a driver tells instead of processes differs with each report.
TEST_F(World, UseThatGoesOnIsToldOnce) {
  for (int i = 0; i < 200; ++i) {
    now_ += std::chrono::seconds(2);
    HostReport report = report_of("a", 4);
    report.activity[0].processes_known = false;
    report.activity[0].utilisation = 90 + i % 2;
    report.activity[0].memory_used = (std::uint64_t{8} << 30) + (static_cast<std::uint64_t>(i) << 20);
    report.activity[1].processes = {{.pid = 1000 + i, .user = "ann"}};
    turn([&] { ASSERT_TRUE(pool_.report(report)); });
  }
  const auto events = pool_.store().events(0, 10000).value();
  EXPECT_EQ(std::ranges::count(events, "unleased-use", &Event::kind), 2);
}

// A driver that does not stay, a link that comes and goes, a program that is started again and again.
TEST_F(World, WhatComesAndGoesIsToldOnceInAMinute) {
  const auto lines = [&](const char* kind) {
    const auto events = pool_.store().events(0, 10000).value();
    return std::ranges::count(events, kind, &Event::kind);
  };
  const auto hosts = lines("host-changed"), gpus = lines("gpu-changed");
  for (int i = 0; i < 300; ++i) {
    now_ += seconds(1);
    HostReport report = report_of("a", 4);
    report.without = i % 2 == 0 ? fmt::format("trouble {}", i) : "";
    if (i % 2 == 0) report.gpus[0].nvlinks = {"GPU-a1"};
    if (i % 2 == 0) report.activity[1].processes = {{.pid = 1000 + i, .user = "ann"}};
    turn([&] { ASSERT_TRUE(pool_.report(report)); });
  }
  for (const auto count : {lines("host-changed") - hosts, lines("gpu-changed") - gpus, lines("unleased-use"),
                           lines("unleased-use-over")}) {
    EXPECT_GE(count, 2);
    EXPECT_LE(count, 6);
  }
  pass(minutes(2));
  EXPECT_EQ(pool_.state().gpus.at("GPU-a0"), gpu_named("a", 0)) << "in the end the pool has the facts as they are";
  EXPECT_EQ(pool_.state().hosts.at("a").without, "");
  const auto before = lines("unleased-use");
  HostReport other = report_of("a", 4);
  for (const char* const user : {"ann", "bob", "eve"}) {
    now_ += seconds(1);
    other.activity[1].processes = {{.pid = 7, .user = user}};
    turn([&] { ASSERT_TRUE(pool_.report(other)); });
  }
  EXPECT_EQ(lines("unleased-use"), before + 3) << "another user is told at once";
}

TEST_F(World, AMachineThatTookTheNameOverIsTaken) {
  auto first = report_of_instances("m", 0, 2), second = report_of_instances("m", 7, 1);
  first.machine = "boot-1/1";
  second.machine = "boot-2/1";
  turn([&] { ASSERT_TRUE(pool_.report(first)); });
  now_ += pool_.state().policy.host_timeout + std::chrono::seconds(1);
  turn([&] { ASSERT_TRUE(pool_.report(second)) << "the first one is silent: it was restarted, or replaced"; });
  now_ += std::chrono::seconds(2);
  turn([&] { EXPECT_FALSE(pool_.report(first)); });
  second.machine.clear();
  turn([&] { EXPECT_TRUE(pool_.report(second)) << "an older agent does not say which machine it is"; });
}

TEST_F(World, AFactThatADriverDoesNotTellNowHasNotChanged) {
  pass(seconds(30), [](HostReport& report) {
    for (Gpu& gpu : report.gpus) gpu.memory = 0, gpu.name.clear();
  });
  EXPECT_EQ(pool_.state().gpus.at("GPU-a0"), gpu_named("a", 0));
}

// --- what a driver does not list ---

GpuActivity hidden_work() { return {.utilisation = 99, .memory_used = 15ULL << 30, .processes_known = false}; }

class WorldWithIdle : public World {
 protected:
  WorldWithIdle()
      : World({.min_runtime = minutes(0),
               .waiting_timeout = std::chrono::hours(24),
               .idle = {.on = true,
                        .window = minutes(1),
                        .no_process_window = minutes(1),
                        .warn_grace = seconds(30),
                        .signal_grace = seconds(30)}}) {}
};

TEST_F(WorldWithIdle, WorkWithoutListedProcessesKeepsALease) {
  for (const bool known : {false, true}) {
    const auto id = acquire(ann_, {.gpus = 4}).value();
    pass(minutes(10), [&](HostReport& report) {
      for (GpuActivity& activity : report.activity) {
        activity = hidden_work();
        activity.processes_known = known;
      }
    });
    EXPECT_TRUE(lease(id).is_open());
    EXPECT_EQ(lease(id).idle_phase, IdlePhase::kBusy);
    turn([&] { ASSERT_TRUE(pool_.revoke(admin_, id, "")); });
    pass(seconds(30));
  }
}

TEST_F(WorldWithIdle, NothingKnownIsNotIdle) {
  const auto id = acquire(ann_, {.gpus = 4}).value();
  pass(minutes(10), [](HostReport& report) {
    for (GpuActivity& activity : report.activity) activity = {.utilisation = std::nullopt, .processes_known = false};
  });
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kBusy);
}

// Its agent has no rights to it: neither processes nor work are known, so that memory alone tells.
TEST_F(World, ASilentInstanceWithTheMemoryOfAProgramIsNotGivenAway) {
  const auto silent = [&](std::uint64_t mebibytes) {
    pass(seconds(30), [&](HostReport& report) {
      report.gpus[0].uuid = "MIG-a0";
      report.activity[0] = {.utilisation = std::nullopt, .memory_used = mebibytes << 20, .processes_known = false};
    });
  };
  silent(600);
  EXPECT_THAT(lease(acquire(ann_, {.gpus = 1, .exact = {"MIG-a0"}}).value()).why,
              HasSubstr("MIG-a0 on a is in use without a lease"));
  silent(50);
  EXPECT_TRUE(lease(acquire(ann_, {.gpus = 1, .exact = {"MIG-a0"}}).value()).is_open());
}

// Drivers keep some of a whole GPU for themselves: 447 MiB of a T4, 850 MiB of an A100.
TEST_F(World, ASilentGpuWithTheMemoryOfAProgramIsNotGivenAway) {
  const auto silent = [&](std::uint64_t total, std::uint64_t used) {
    now_ += minutes(1);  // then its memory may change again
    pass(seconds(30), [&](HostReport& report) {
      report.gpus[0].memory = total << 20;
      report.activity[0] = {.utilisation = std::nullopt, .memory_used = used << 20, .processes_known = false};
    });
    return pool_.state().is_used(pool_.state().gpus.at("GPU-a0"));
  };
  EXPECT_TRUE(silent(16'000, 600));
  EXPECT_THAT(lease(acquire(ann_, {.gpus = 1, .exact = {"GPU-a0"}}).value()).why,
              HasSubstr("GPU-a0 on a is in use without a lease"));
  EXPECT_FALSE(silent(15'360, 450));
  EXPECT_FALSE(silent(81'920, 850));
  EXPECT_TRUE(silent(81'920, 1'100));
  EXPECT_TRUE(silent(4'096, 200));
  EXPECT_FALSE(silent(4'096, 100));
}

// A GPU of which reports tell so much memory, in MiB, and what else a test says.
class WorldOfOneGpu : public World {
 protected:
  // Its memory may change only once in a minute.
  void set_memory(std::uint64_t total) {
    total_ = total << 20;
    now_ += minutes(1);
  }
  bool is_used_after(Span since, const GpuActivity& seen) {
    now_ += since;
    turn([&] {
      HostReport report = report_of("a", 4);
      report.gpus[0].memory = total_;
      report.activity[0] = seen;
      EXPECT_TRUE(pool_.report(report));
    });
    return pool_.state().is_used(pool_.state().gpus.at("GPU-a0"));
  }

  std::uint64_t total_ = 0;
};

// The driver tells of work: a program has none while it loads a batch.
TEST_F(WorldOfOneGpu, WithTheMemoryOfAProgramIsNotGivenAwayWhileItsProgramPauses) {
  const auto paused = [&](std::uint64_t total, std::uint64_t used) {
    set_memory(total);
    return is_used_after(minutes(1), {.utilisation = 0, .memory_used = used << 20, .processes_known = false});
  };
  EXPECT_TRUE(paused(15'360, 600));
  EXPECT_THAT(lease(acquire(ann_, {.gpus = 1, .exact = {"GPU-a0"}}).value()).why,
              HasSubstr("GPU-a0 on a is in use without a lease"));
  EXPECT_TRUE(paused(15'360, 1'500));
  EXPECT_TRUE(paused(40'960, 4'000));
  EXPECT_FALSE(paused(15'360, 450)) << "so much the driver keeps for itself";
  EXPECT_FALSE(paused(81'920, 850));
  EXPECT_TRUE(lease(acquire(ann_, {.gpus = 1, .exact = {"GPU-a0"}}).value()).is_open());
}

// Memory that is not told, or that an idle GPU may have, too: then it has to show no work for a while.
TEST_F(WorldOfOneGpu, IsNotGivenAwayInAPauseOfWorkThatNoProcessExplains) {
  struct Case {
    std::uint64_t total, used;  // MiB
    bool known;
  };
  for (const auto& [total, used, known] :
       {Case{15'360, 0, false}, {81'920, 900, false}, {40'960, 4'000, true}, {81'920, 7'000, true}}) {
    const GpuActivity busy{.utilisation = 90, .memory_used = used << 20, .processes_known = known};
    GpuActivity paused = busy;
    paused.utilisation = 0;
    set_memory(total);
    EXPECT_FALSE(is_used_after(minutes(1), paused));
    EXPECT_TRUE(is_used_after(seconds(1), busy));
    for (int i = 0; i < 14; ++i) EXPECT_TRUE(is_used_after(seconds(2), paused)) << total << " " << used << " " << i;
    EXPECT_FALSE(is_used_after(seconds(2), paused)) << "it is idle for 30 s";
  }
}

TEST_F(WorldOfOneGpu, IsFreeAtOnceWhenTheMemoryOfItsProgramIsGone) {
  set_memory(81'920);
  GpuActivity seen{.utilisation = 90, .memory_used = 900ULL << 20, .processes_known = false};
  EXPECT_TRUE(is_used_after(seconds(1), seen));
  seen.utilisation = 0;
  seen.memory_used = 20 << 20;
  EXPECT_FALSE(is_used_after(seconds(1), seen));
  seen = {.utilisation = 90, .memory_used = 4'000ULL << 20};
  EXPECT_TRUE(is_used_after(seconds(1), seen));
  seen.utilisation = 0;
  seen.memory_used = 500 << 20;
  EXPECT_FALSE(is_used_after(seconds(1), seen));
}

// The work of a lease says nothing of what goes on after it.
TEST_F(WorldOfOneGpu, IsFreeAfterALeaseWithTheNextReport) {
  GpuActivity seen{.utilisation = 0, .memory_used = 400ULL << 20, .processes_known = false};
  set_memory(81'920);
  is_used_after(seconds(1), seen);
  const auto id = acquire(ann_, {.gpus = 1, .exact = {"GPU-a0"}}).value();
  ASSERT_TRUE(lease(id).is_open());
  seen.utilisation = 90;
  is_used_after(seconds(2), seen);
  turn_without_report([&] { ASSERT_TRUE(pool_.revoke(admin_, id, "")); });
  seen.utilisation = 0;
  EXPECT_FALSE(is_used_after(seconds(2), seen));
}

TEST_F(World, AGpuThatIsUsedIsNotGivenAwayAlthoughNoProcessIsListed) {
  pass(seconds(30), [](HostReport& report) { report.activity[0] = hidden_work(); });
  const auto all = acquire(ann_, {.gpus = 4}).value();
  EXPECT_THAT(lease(all).why, HasSubstr("GPU-a0 on a is in use without a lease, by processes that its driver"));
  const auto three = acquire(ann_, {.gpus = 3}).value();
  EXPECT_THAT(lease(three).gpus, ElementsAre("GPU-a1", "GPU-a2", "GPU-a3"));
  EXPECT_EQ(find_drift(pool_.state(), now_).at(0).what,
            "in use without a lease by processes that the driver does not list (99 % busy, 15360 MiB of memory used)");
  turn([&] {
    const LeaseRequest adopted{.gpus = 1, .exact = {"GPU-a0"}};
    EXPECT_THAT(pool_.adopt(bob_, adopted, token_number(60)).error().message(), HasSubstr("only an admin can adopt"));
    EXPECT_TRUE(pool_.adopt(admin_, adopted, token_number(61)));
  });
}

// A driver that is loaded for each question tells of full use on idle GPUs.
TEST_F(World, UtilisationWithoutMemoryIsNoUse) {
  pass(seconds(30), [](HostReport& report) { report.activity[0] = {.utilisation = 99, .memory_used = 3 << 20}; });
  EXPECT_THAT(lease(acquire(ann_, {.gpus = 4}).value()).gpus, SizeIs(4));
}

// --- reports that come faster than they should ---

TEST(IdleWindows, HaveSoManySamplesHoweverFastReportsCome) {
  const IdlePolicy policy{.on = true};
  const Time begin = Time(std::chrono::hours(1000));
  IdleWindow window;
  Time now = begin;
  for (int i = 0; i < 400'000; ++i) {
    now += Span(10);
    window.add({.at = now, .stands_for = Span(10), .utilisation = i % 2 == 0 ? 8.0 : 0.0, .processes = true}, policy);
  }
  EXPECT_LE(window.samples(), kMostSamples + 2);
  const IdleAssessment assessment = window.assess(policy, begin, now);
  EXPECT_TRUE(assessment.idle);
  EXPECT_THAT(assessment.why, HasSubstr("its GPUs were used 4.0 % over 30 min"));
}

// --- people ---

TEST(RecentLinesOf, ManyGpusAreLimited) {
  RecentLines lines;
  const Time now = Time(std::chrono::hours(1));
  for (int i = 0; i < 25'000; ++i) ASSERT_TRUE(lines.take(fmt::format("gpu {}", i), now));
  EXPECT_LE(lines.size(), kMostRecentLines);
  EXPECT_FALSE(lines.take("gpu 24999", now + seconds(59)));
  EXPECT_TRUE(lines.take("gpu 24999", now + seconds(60)));
}

TEST_F(World, UsersAndTeamsAreLimited) {
  turn([&] {
    for (std::size_t i = pool_.state().users.size(); i < kMaxUsers; ++i)
      ASSERT_TRUE(pool_.set_user(admin_, {.name = fmt::format("u{}", i), .token_hash = std::to_string(i)}));
    for (std::size_t i = pool_.state().teams.size(); i < kMaxTeams; ++i)
      ASSERT_TRUE(pool_.set_team(admin_, {.name = fmt::format("t{}", i)}));
    EXPECT_THAT(pool_.set_user(admin_, {.name = "more", .token_hash = "more"}).error().message(),
                HasSubstr("the pool has room for 10000 users"));
    EXPECT_THAT(pool_.set_team(admin_, {.name = "more"}).error().message(),
                HasSubstr("the pool has room for 10000 teams"));
    EXPECT_TRUE(pool_.set_team(admin_, {.name = "t5", .quota = 1})) << "one that is there can be changed";
    EXPECT_TRUE(pool_.remove_user(admin_, "u9"));
    EXPECT_TRUE(pool_.set_user(admin_, {.name = "more", .token_hash = "more"}));
  });
}

// --- clocks that are set ---

TEST(WallClocks, FollowSmallStepsAndHoldJumps) {
  WallClock::Reading machine{Time(std::chrono::hours(1000)), seconds(50)};
  WallClock clock([&] { return machine; });
  const auto pass = [&](Span time, Span step = Span(0)) {
    machine.steady += time;
    machine.wall += time + step;
    return clock.now();
  };
  Time right = Time(std::chrono::hours(1000));
  EXPECT_EQ(pass(seconds(5)), right += seconds(5));
  EXPECT_EQ(pass(seconds(5), seconds(20)), right += seconds(25)) << "a clock that is kept right";
  EXPECT_FALSE(clock.news());
  EXPECT_EQ(pass(seconds(1), std::chrono::days(1)), right += seconds(1));
  const auto jumped = clock.news();
  ASSERT_TRUE(jumped && !jumped->accepted && !jumped->over);
  EXPECT_EQ(jumped->by, std::chrono::days(1));
  EXPECT_EQ(pass(seconds(1)), right += seconds(1));
  EXPECT_FALSE(clock.news()) << "told once";
  EXPECT_EQ(pass(seconds(1), -std::chrono::days(1)), right += seconds(1));
  EXPECT_TRUE(clock.news()->over);
  EXPECT_EQ(pass(seconds(1), -std::chrono::hours(2)), right += seconds(1));
  EXPECT_EQ(pass(WallClock::kAcceptAfter - seconds(1)), right += WallClock::kAcceptAfter - seconds(1));
  EXPECT_EQ(clock.news()->by, -std::chrono::hours(2));
  EXPECT_EQ(pass(seconds(1)), right += seconds(1) - std::chrono::hours(2)) << "a correction";
  EXPECT_TRUE(clock.news()->accepted);
  EXPECT_EQ(pass(seconds(1)), right += seconds(1));
  EXPECT_FALSE(clock.news());
}

TEST(WallClocks, OneThatWasSetWhileNoServerRanHasJumped) {
  WallClock::Reading machine{Time(std::chrono::hours(1000)), seconds(50)};
  const Span before = WallClock([&] { return machine; }).offset().value();
  machine.wall += std::chrono::days(1);
  WallClock clock([&] { return machine; }, before);
  EXPECT_EQ(clock.now(), Time(std::chrono::hours(1000)));
  EXPECT_EQ(clock.news()->by, std::chrono::days(1));
  EXPECT_EQ(clock.offset(), before) << "until the jump is accepted";
}

TEST_F(World, HowTheClockIsSetIsStored) {
  EXPECT_FALSE(pool_.store().clock_mark().value());
  for (const auto& [machine, offset, wanted] :
       {std::tuple("a", 100, 100), {"a", 103, 100}, {"a", 109, 109}, {"b", 7, 7}}) {
    turn([&] { EXPECT_TRUE(pool_.keep({machine, seconds(offset)})); });
    const auto mark = pool_.store().clock_mark().value();
    EXPECT_EQ(mark->machine, machine);
    EXPECT_EQ(mark->offset, seconds(wanted)) << "a clock that is kept right costs no write";
  }
}

TEST_F(World, AClockThatIsSetEndsNoLeaseAndMovesNone) {
  const auto open = acquire(ann_, {.gpus = 4, .duration = std::chrono::hours(2)}).value();
  const auto waits = acquire(bob_, {.gpus = 1, .wait = true}).value();
  for (const Span by : {Span(std::chrono::days(1)), -Span(std::chrono::days(2))}) {
    now_ += by;
    ASSERT_TRUE(pool_.begin(now_, ClockJump{.by = by, .accepted = true}));
    ASSERT_TRUE(pool_.finish());
    EXPECT_TRUE(lease(open).is_open());
    EXPECT_TRUE(lease(waits).is_waiting());
    EXPECT_EQ(lease(open).expires - now_, std::chrono::hours(2));
    ASSERT_TRUE(pool_.abandon());
    EXPECT_EQ(lease(open).expires - now_, std::chrono::hours(2)) << "it is stored";
  }
  EXPECT_THAT(events(0), ::testing::Contains("clock-set").Times(2));
}

// As the server runs it: the queue asks the clock, and tells the pool of what has happened to it.
TEST_F(World, AServerWhoseClockIsSetTellsItAndGoesOn) {
  const auto open = acquire(ann_, {.gpus = 4, .duration = std::chrono::hours(2)}).value();
  std::mutex mutex;
  WallClock::Reading machine{now_, seconds(50)};
  WallClock clock([&] {
    const std::lock_guard lock(mutex);
    return machine;
  });
  CommandQueue queue(
      std::move(pool_), [&] { return clock.now(); }, [&] { return clock.news(); });
  std::vector<std::string> told;
  Lease seen;
  const auto set = [&](Span time, Span step) {
    {
      const std::lock_guard lock(mutex);
      machine.steady += time;
      machine.wall += time + step;
    }
    ASSERT_TRUE(queue.change([](Pool&) {},
                             [&](Pool& pool) {
                               seen = pool.lease(open).value();
                               told.clear();
                               const auto events = pool.store().events(0, 10000);
                               for (const Event& event : *events)
                                 if (event.kind.starts_with("clock-")) told.push_back(event.kind);
                             }));
  };
  const Time expires = lease_expiry_of(queue, open);
  set(seconds(1), std::chrono::days(1));
  EXPECT_TRUE(seen.is_open());
  EXPECT_THAT(told, ElementsAre("clock-jumped"));
  set(seconds(2), -std::chrono::days(1));
  EXPECT_TRUE(seen.is_open());
  EXPECT_EQ(seen.expires, expires);
  EXPECT_THAT(told, ElementsAre("clock-jumped", "clock-right"));
  set(seconds(1), std::chrono::days(1));
  set(WallClock::kAcceptAfter, Span(0));
  EXPECT_TRUE(seen.is_open());
  EXPECT_EQ(seen.expires, expires + std::chrono::days(1));
  EXPECT_THAT(told, ElementsAre("clock-jumped", "clock-right", "clock-jumped", "clock-set"));
  set(std::chrono::hours(2), Span(0));
  EXPECT_EQ(seen.why, "its time was over");
}

// --- sizes and times as people say them ---

TEST_F(World, MemoryIsThatWhichCardsAreSoldWith) {
  for (const auto& [mebibytes, gigabytes, fits] :
       {std::tuple(15360, 16, true), {81559, 80, true}, {73728, 80, true}, {40960, 80, false}, {12288, 16, false}}) {
    pass(minutes(1), [&](HostReport& report) {
      for (Gpu& gpu : report.gpus) gpu.memory = std::uint64_t(mebibytes) << 20;
    });
    const auto id = acquire(ann_, {.gpus = 1, .memory = std::uint64_t(gigabytes) << 30}).value();
    EXPECT_EQ(lease(id).is_open(), fits) << mebibytes << " MiB for " << gigabytes << "G: " << lease(id).why;
    if (fits) turn([&] { ASSERT_TRUE(pool_.revoke(admin_, id, "")); });
  }
}

// --- limits on every way in ---

TEST_F(World, AdoptedGpusCountForTheLimitsOfTheUserAndTheTeam) {
  turn([&] {
    ASSERT_TRUE(pool_.set_team(admin_, {.name = "strict", .quota = 2, .may_borrow = false}));
    ASSERT_TRUE(pool_.set_user(admin_, {.name = "cat", .team = "strict", .token_hash = "c"}));
    ASSERT_TRUE(pool_.set_user(admin_, {.name = "dan", .token_hash = "d", .max_gpus = 1}));
  });
  const User cat = pool_.state().users.at("cat");
  const User dan = pool_.state().users.at("dan");
  pass(seconds(30), [](HostReport& report) {
    for (const int gpu : {0, 1}) report.activity[gpu].processes = {{.pid = 7, .user = gpu == 0 ? "cat" : "dan"}};
  });
  const auto two = acquire(cat, {.gpus = 2}).value();
  const auto adopt = [&](const User& user, const char* gpu) {
    std::string why;
    turn([&] {
      const auto id = pool_.adopt(user, {.gpus = 1, .exact = {gpu}}, token_number(++tokens_));
      if (!id) why = id.error().message();
    });
    return why;
  };
  EXPECT_EQ(adopt(cat, "GPU-a0"), "team strict has a quota of 2 GPUs, may not borrow, and would hold 3");
  turn([&] { ASSERT_TRUE(pool_.revoke(admin_, two, "")); });
  EXPECT_EQ(adopt(cat, "GPU-a0"), "");
  ASSERT_TRUE(lease(acquire(dan, {.gpus = 1}).value()).is_open());
  EXPECT_EQ(adopt(dan, "GPU-a1"), "dan may hold 1 GPU at once, and would hold 2");
}

}  // namespace
}  // namespace xoe::pool::testing
