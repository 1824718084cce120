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
