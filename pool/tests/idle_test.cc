// When a lease counts as idle, and what happens to it.
#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using ::testing::ElementsAre;

class Idle : public PoolTest {
 protected:
  Idle() : PoolTest({.min_runtime = minutes(0), .idle = {.on = true}}) {}

  void use_for(Span time, int utilisation, double cpu = 0) {
    pass(time, [&](HostReport& report) {
      report.activity[0] = {
          .utilisation = utilisation, .memory_used = 1 << 30, .processes = {{.pid = 7, .user = "ann", .cpu = cpu}}};
    });
  }
};

TEST_F(Idle, ALeaseWithoutAProcessIsIdleFromTheStart) {
  const auto id = acquire(ann_, {}).value();
  pass(minutes(13));
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kBusy);
  pass(minutes(2));
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kWarned);
  pass(minutes(10));
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kSignalled);
  pass(minutes(5));
  EXPECT_EQ(lease(id).state, LeaseState::kEnded);
  EXPECT_EQ(lease(id).why, "idle: no process used its GPUs for 15 min");
  EXPECT_THAT(events(id), ElementsAre("asked", "granted", "idle-warned", "idle-signalled", "ended"));
}

TEST_F(Idle, MemoryHeldWithoutWorkIsIdle) {
  const auto id = acquire(ann_, {}).value();
  use_for(minutes(29), 1, 0.3);
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kBusy);
  use_for(minutes(1), 1, 0.3);
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kWarned);
}

class BriefIdle : public PoolTest {
 protected:
  BriefIdle() : PoolTest({.idle = {.on = true, .window = minutes(2), .no_process_window = minutes(1)}}) {}
};

// Just before a report, less than nine tenths of the window are known.
TEST_F(BriefIdle, IsSeenWithTheReportOfItsHostAlsoWhereAnotherHasJustReported) {
  turn([&] { EXPECT_TRUE(pool_.report(report_of("b", 1))); });
  const auto id = acquire(ann_, {.host = "a"}).value();
  for (int i = 0; i < 10; ++i) {
    now_ += std::chrono::milliseconds(6500);
    turn([&] { EXPECT_TRUE(pool_.report(report_of("b", 1))); });
    now_ += std::chrono::milliseconds(500);
    turn([&] { EXPECT_TRUE(pool_.report(report_of("a", 4))); });
  }
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kWarned);
}

TEST_F(BriefIdle, IsNotOverWhereOnlyOtherHostsHaveReportedSince) {
  turn([&] { EXPECT_TRUE(pool_.report(report_of("b", 1))); });
  const auto id = acquire(ann_, {.host = "a"}).value();
  for (int i = 0; i < 10; ++i) {
    now_ += std::chrono::seconds(7);
    turn([&] { EXPECT_TRUE(pool_.report(report_of("a", 4))); });
  }
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kWarned);
  now_ += std::chrono::milliseconds(6900);
  turn([&] { EXPECT_TRUE(pool_.report(report_of("b", 1))); });
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kWarned);
  EXPECT_THAT(events(id), ElementsAre("asked", "granted", "idle-warned"));
}

// As of a MIG instance.
TEST_F(Idle, WhoseUseIsNotKnownIsBusyWhileItHasAProcess) {
  const auto id = acquire(ann_, {}).value();
  const auto unknown = [&](Span time, bool used) {
    pass(time, [&](HostReport& report) {
      report.activity[0].utilisation.reset();
      if (used) report.activity[0].processes = {{.pid = 7, .user = "ann"}};
    });
  };
  unknown(minutes(120), true);
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kBusy);
  unknown(minutes(16), false);
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kWarned);
}

TEST_F(Idle, TheWindowSlides) {
  const auto id = acquire(ann_, {.duration = std::chrono::hours(100)}).value();
  use_for(std::chrono::hours(5), 95);
  use_for(minutes(20), 0);
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kBusy);
  use_for(minutes(10), 0);  // the mean over all the time is still above 80 %
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kWarned);
  use_for(minutes(5), 95);
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kBusy);
  EXPECT_THAT(events(id), ElementsAre("asked", "granted", "idle-warned", "idle-over"));
}

// As of a program whose mean is about the limit.
TEST_F(Idle, WhoComesAndGoesIsToldOnceInAMinute) {
  const auto id = acquire(ann_, {.duration = std::chrono::hours(100)}).value();
  const auto count = [&](const char* kind) { return std::ranges::count(events(id), kind); };
  const auto use_briefly = [&](int utilisation) {
    now_ += seconds(2);
    turn([&] {
      HostReport report = report_of("a", 4);
      report.activity[0] = {.utilisation = utilisation, .processes = {{.pid = 7, .user = "ann"}}};
      ASSERT_TRUE(pool_.report(report));
    });
  };
  use_for(minutes(30), 5);
  ASSERT_EQ(lease(id).idle_phase, IdlePhase::kBusy);
  for (int i = 0; i < 30; ++i) {
    use_briefly(4);
    EXPECT_EQ(lease(id).idle_phase, IdlePhase::kWarned);
    use_briefly(6);
    EXPECT_EQ(lease(id).idle_phase, IdlePhase::kBusy);
  }
  EXPECT_EQ(count("idle-warned"), 2) << "of two minutes";
  EXPECT_EQ(count("idle-over"), 2);
  use_briefly(4);
  EXPECT_EQ(count("idle-warned"), 3);
  use_briefly(6);
  use_briefly(4);
  const Time since = now_;
  EXPECT_EQ(count("idle-warned"), 3);
  EXPECT_EQ(lease(id).idle_phase_since, since);
  for (int i = 0; i < 30; ++i) use_briefly(4);
  EXPECT_EQ(count("idle-warned"), 4) << "that it is idle now is told after the pause";
  while (lease(id).idle_phase == IdlePhase::kWarned) use_briefly(4);
  EXPECT_EQ(now_, since + minutes(10)) << "the time to the signal is what it would be without the pause";
  EXPECT_EQ(count("idle-over"), 3);
}

TEST_F(Idle, AClockThatIsSetMovesWhatWasSeen) {
  for (const Span by : {Span(-std::chrono::hours(2)), Span(std::chrono::hours(2))}) {
    const auto id = acquire(ann_, {.duration = std::chrono::hours(100)}).value();
    use_for(minutes(20), by < Span(0) ? 95 : 0);
    now_ += by;
    ASSERT_TRUE(pool_.begin(now_, ClockJump{.by = by, .accepted = true}));
    ASSERT_TRUE(pool_.finish());
    use_for(minutes(9), 0);
    EXPECT_EQ(lease(id).idle_phase, IdlePhase::kBusy);
    use_for(by < Span(0) ? minutes(21) : minutes(1), 0);
    EXPECT_EQ(lease(id).idle_phase, IdlePhase::kWarned) << "what was seen is as old as it was";
    turn([&] { ASSERT_TRUE(pool_.release(ann_, id, {}, "done")); });
    pass(seconds(30));
  }
}

TEST_F(Idle, TimeThatWasNotObservedDoesNotCount) {
  const auto id = acquire(ann_, {}).value();
  now_ += minutes(50);
  turn();
  pass(minutes(5));
  EXPECT_EQ(lease(id).idle_phase, IdlePhase::kBusy);
}

TEST_F(Idle, AnExemptLeaseStays) {
  const auto id = acquire(ann_, {}).value();
  turn([&] {
    EXPECT_FALSE(pool_.exempt(bob_, id, ""));
    EXPECT_TRUE(pool_.exempt(lead_, id, "a long compilation"));
  });
  pass(minutes(60));
  EXPECT_TRUE(lease(id).is_open());
}

TEST(IdlePolicyCheck, AWindowThatIsTooShortIsRefused) {
  Scratch scratch;
  const auto pool =
      Pool::open(Store::open(scratch.file("pool.db")).value(), {.idle = {.on = true, .window = seconds(20)}});
  EXPECT_EQ(pool.error().message(), "the idle window is 20 s; it must be 1 min at least");
}

}  // namespace
}  // namespace xoe::pool::testing
