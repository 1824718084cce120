// From one holder to the next: a GPU is free when a report from after its release shows it so, and who waits keeps the
// place meanwhile.
#include <optional>

#include "pool/core/drift.h"
#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr seconds kReportPause(2);

class Turnover : public PoolTest {
 protected:
  void release(std::int64_t id) {
    turn_without_report([&] { EXPECT_TRUE(pool_.release(ann_, id, {}, "done")); });
  }

  std::int64_t ask(const User& user, const LeaseRequest& request) {
    std::int64_t id = 0;
    turn_without_report([&] { id = pool_.acquire(user, request, token_number(++tokens_)).value(); });
    return id;
  }

  void report(const std::optional<GpuProcess>& left = std::nullopt) {
    now_ += kReportPause;
    turn_without_report([&] {
      HostReport report = report_of("a", 4);
      if (left)
        for (GpuActivity& seen : report.activity) seen.processes = {*left};
      EXPECT_TRUE(pool_.report(report));
    });
  }
};

TEST_F(Turnover, TheNextHolderGetsTheGpuWithTheNextReport) {
  const auto first = ask(ann_, {.gpus = 4});
  const auto next = ask(bob_, {.wait = true});
  now_ += seconds(20);
  const Time released = now_;
  release(first);
  EXPECT_TRUE(lease(next).is_waiting());
  EXPECT_EQ(lease(next).starts, released);
  EXPECT_EQ(lease(next).why,
            "GPU-a0 on a was given back a moment ago: the next report of its agent, within 30 s, tells whether it is "
            "free");
  EXPECT_GT(pool_.next_event().value(), now_);  // a turn now would change nothing
  report();
  EXPECT_TRUE(lease(next).is_open());
  EXPECT_EQ(lease(next).begins, released);  // as it was told: who comes after it keeps the time that was said
  EXPECT_THAT(events(next), ElementsAre("asked", "granted"));
}

TEST_F(Turnover, AProcessThatWasLeftKeepsTheGpuFromTheNextHolder) {
  const auto first = ask(ann_, {.gpus = 4});
  const auto next = ask(bob_, {.wait = true});
  now_ += seconds(20);
  release(first);
  report(GpuProcess{.pid = 77, .user = "ann"});
  EXPECT_TRUE(lease(next).is_waiting());
  EXPECT_EQ(lease(next).why, "GPU-a0 on a is in use without a lease by ann (process 77)");
  report();
  EXPECT_TRUE(lease(next).is_open());
  EXPECT_EQ(lease(next).begins, now_);  // the process took the time, not the report
}

TEST_F(Turnover, ALeaseThatEndsByItselfIsNoExcuse) {
  const auto first = ask(ann_, {.gpus = 4, .duration = minutes(10)});
  const auto next = ask(bob_, {.wait = true});
  for (int i = 0; i < 299; ++i) report();
  now_ += kReportPause + std::chrono::milliseconds(5);
  turn_without_report();
  EXPECT_FALSE(lease(first).is_open());
  EXPECT_TRUE(lease(next).is_waiting());
  report(GpuProcess{.pid = 77, .user = "ann"});
  EXPECT_TRUE(lease(next).is_waiting());
}

TEST_F(Turnover, NowOrNotAtAllIsDecidedByTheReport) {
  for (const bool is_free : {true, false}) {
    const auto first = ask(ann_, {.gpus = 4});
    now_ += seconds(20);
    release(first);
    const auto next = ask(bob_, {});
    EXPECT_TRUE(lease(next).is_waiting());
    report(is_free ? std::nullopt : std::optional(GpuProcess{.pid = 77, .user = "ann"}));
    EXPECT_EQ(lease(next).is_open(), is_free);
    if (is_free) {
      turn([&] { EXPECT_TRUE(pool_.release(bob_, next, {}, "done")); });
      continue;
    }
    EXPECT_EQ(lease(next).state, LeaseState::kEnded);
    EXPECT_EQ(lease(next).why, "refused: GPU-a0 on a is in use without a lease by ann (process 77)");
  }
}

TEST_F(Turnover, OtherGpusComeFirstAndAtOnce) {
  const auto first = ask(ann_, {.gpus = 2});
  EXPECT_THAT(lease(first).gpus, ElementsAre("GPU-a0", "GPU-a1"));
  now_ += seconds(20);
  release(first);
  const auto next = ask(bob_, {.gpus = 2});
  EXPECT_THAT(lease(next).gpus, ElementsAre("GPU-a2", "GPU-a3"));
  EXPECT_TRUE(lease(next).is_open());
}

// The former holder is awake when its lease ends, and asks again.
TEST_F(Turnover, NobodyOvertakesMeanwhile) {
  const auto first = ask(ann_, {.gpus = 4});
  const auto second = ask(bob_, {.gpus = 4, .duration = minutes(10), .wait = true});
  const auto third = ask(bob_, {.gpus = 4, .duration = minutes(10), .wait = true});
  now_ += seconds(20);
  const Time released = now_;
  release(first);
  const auto again = ask(ann_, {.gpus = 4, .duration = minutes(10), .wait = true});
  now_ += std::chrono::milliseconds(500);
  turn_without_report();
  report();
  EXPECT_TRUE(lease(second).is_open());
  EXPECT_EQ(lease(third).starts, released + minutes(10));
  EXPECT_EQ(lease(again).starts, released + minutes(20));
}

// A turn comes some milliseconds after the time that it is for: the second in the queue fits before the first no more.
TEST_F(Turnover, ALateTurnChangesNoOrder) {
  ask(ann_, {.gpus = 4, .duration = minutes(10)});
  const auto second = ask(bob_, {.gpus = 4, .duration = minutes(10), .wait = true});
  const auto third = ask(ann_, {.gpus = 4, .duration = minutes(10), .wait = true});
  const Time begin = now_;
  for (const Time end = now_ + minutes(10) - seconds(2); now_ < end;) report();
  now_ = begin + minutes(10) + std::chrono::milliseconds(7);
  turn_without_report([&] { EXPECT_TRUE(pool_.report(report_of("a", 4))); });
  EXPECT_TRUE(lease(second).is_open());
  EXPECT_EQ(lease(second).begins, begin + minutes(10));
  EXPECT_EQ(lease(third).starts, begin + minutes(20));
  EXPECT_THAT(events(third), ElementsAre("asked"));
}

TEST_F(Turnover, AHostThatFallsSilentGivesNothing) {
  const auto first = ask(ann_, {.gpus = 4});
  const auto next = ask(bob_, {.wait = true});
  now_ += seconds(20);
  release(first);
  now_ = pool_.next_event().value();
  turn_without_report();
  EXPECT_TRUE(lease(next).is_waiting());
  EXPECT_THAT(lease(next).why, HasSubstr("is offline"));
  report();
  EXPECT_TRUE(lease(next).is_open());
}

TEST_F(Turnover, AReservationWaitsForTheReportToo) {
  ask(ann_, {.gpus = 4, .duration = minutes(10)});
  const Time at = now_ + minutes(10);
  const auto reserved = ask(bob_, {.gpus = 4, .duration = minutes(10), .at = at});
  while (now_ < at - seconds(2)) report();
  now_ = at;
  turn_without_report();
  EXPECT_TRUE(lease(reserved).is_waiting());
  report(GpuProcess{.pid = 77, .user = "ann"});
  EXPECT_TRUE(lease(reserved).is_waiting());
  report();
  EXPECT_TRUE(lease(reserved).is_open());
}

TEST_F(Turnover, AShortLeaseHasAllOfItsTime) {
  const auto first = ask(ann_, {.gpus = 4});
  const auto next = ask(bob_, {.gpus = 4, .duration = seconds(4), .wait = true});
  now_ += seconds(20);
  release(first);
  report();
  EXPECT_TRUE(lease(next).is_open());
  EXPECT_EQ(lease(next).begins, now_);
}

// As the last report mostly shows it: its holder's program was there.
TEST_F(Turnover, WhatTheLastReportShowedCostsNobodyThePlace) {
  const auto two = ask(ann_, {.gpus = 2, .duration = minutes(30)});
  const auto four = ask(bob_, {.gpus = 4, .wait = true});
  const auto one = ask(bob_, {.gpus = 1, .duration = std::chrono::hours(3), .wait = true});
  const auto reserved = ask(ann_, {.gpus = 1, .at = now_ + std::chrono::hours(9)});
  EXPECT_TRUE(lease(one).is_waiting());
  now_ += seconds(1);
  turn_without_report([&] {
    HostReport shown = report_of("a", 4);
    for (const int gpu : {0, 1}) shown.activity[gpu].processes = {{.pid = 77, .user = "ann"}};
    EXPECT_TRUE(pool_.report(shown));
  });
  now_ += seconds(1);
  release(two);
  EXPECT_TRUE(lease(four).is_waiting());
  EXPECT_TRUE(lease(one).is_waiting()) << "it would hold back the first";
  EXPECT_TRUE(find_drift(pool_.state(), now_).empty());
  report();
  EXPECT_TRUE(lease(four).is_open());
  EXPECT_TRUE(lease(one).is_waiting());
  EXPECT_TRUE(lease(reserved).starts);
}

// A leftover on the GPU of the first takes that GPU from it, and not its place.
TEST_F(Turnover, TheFirstInTheQueueTakesTheGpuThatIsFree) {
  const auto all = ask(ann_, {.gpus = 4});
  ask(lead_, {.gpus = 2, .priority = 1, .wait = true});
  const auto first = ask(bob_, {.gpus = 1, .wait = true});
  const auto second = ask(bob_, {.gpus = 1, .wait = true});
  now_ += seconds(20);
  release(all);
  const std::string gpu = lease(first).gpus.at(0);
  now_ += kReportPause;
  turn_without_report([&] {
    HostReport report = report_of("a", 4);
    for (std::size_t i = 0; i < report.gpus.size(); ++i)
      if (report.gpus[i].uuid == gpu) report.activity[i].processes = {{.pid = 77, .user = "ann"}};
    EXPECT_TRUE(pool_.report(report));
  });
  EXPECT_TRUE(lease(first).is_open());
  EXPECT_NE(lease(first).gpus.at(0), gpu);
  EXPECT_TRUE(lease(second).is_waiting());
}

// Another host is quicker than the one whose agent hangs.
TEST_F(Turnover, WhoWaitsForAReportTakesWhatIsFreeElsewhere) {
  const auto all = ask(ann_, {.gpus = 4});
  const auto first = ask(bob_, {.gpus = 1, .wait = true});
  const auto second = ask(bob_, {.gpus = 4, .wait = true});
  now_ += seconds(5);
  release(all);
  now_ += seconds(3);
  turn_without_report([&] { EXPECT_TRUE(pool_.report(report_of("b", 1))); });
  EXPECT_THAT(lease(first).gpus, ElementsAre("GPU-b0"));
  EXPECT_TRUE(lease(first).is_open());
  EXPECT_TRUE(lease(second).is_waiting());
}

TEST_F(Turnover, AShortLeaseIsNotOvertaken) {
  const auto first = ask(ann_, {.gpus = 4});
  const auto next = ask(bob_, {.gpus = 4, .duration = seconds(6), .wait = true});
  const auto last = ask(bob_, {.gpus = 4, .duration = minutes(9), .wait = true});
  now_ += seconds(20);
  release(first);
  report();
  EXPECT_TRUE(lease(next).is_open());
  EXPECT_EQ(lease(last).starts, lease(next).expires);
}

// As an agent repeats it while it is busy.
TEST_F(Turnover, AReportOfALookBeforeTheEndTellsNothing) {
  const auto first = ask(ann_, {.gpus = 4});
  const auto next = ask(bob_, {.wait = true});
  now_ += seconds(10);
  release(first);
  now_ += seconds(5);
  const auto tell = [&](Span age) {
    turn_without_report([&] {
      HostReport report = report_of("a", 4);
      report.age = age;
      EXPECT_TRUE(pool_.report(report));
    });
  };
  tell(seconds(6));
  EXPECT_TRUE(lease(next).is_waiting());
  tell(seconds(4));
  EXPECT_TRUE(lease(next).is_open());
}

TEST_F(Turnover, AClockThatIsSetChangesNoOrder) {
  ask(ann_, {.gpus = 4, .duration = minutes(10)});
  const auto second = ask(bob_, {.gpus = 4, .duration = minutes(40), .wait = true});
  const auto third = ask(ann_, {.gpus = 4, .duration = minutes(40), .wait = true});
  const Time begin = now_;
  for (const auto by : {minutes(15), -minutes(15)}) {
    now_ += by;
    ASSERT_TRUE(pool_.begin(now_, ClockJump{.by = by, .accepted = true}));
    EXPECT_TRUE(pool_.report(report_of("a", 4)));
    ASSERT_TRUE(pool_.finish());
    const Time zero = begin + (now_ - begin);
    EXPECT_EQ(lease(second).starts, zero + minutes(10));
    EXPECT_EQ(lease(third).starts, zero + minutes(50));
  }
}

// A turn that the database refused is undone: the lease holds its GPUs, and no lease waits for a report of them.
TEST_F(Turnover, AnUndoneReleaseLeavesNothing) {
  const auto first = ask(ann_, {.gpus = 4});
  ASSERT_TRUE(pool_.begin(now_));
  ASSERT_TRUE(pool_.release(ann_, first, {}, "done"));
  ASSERT_TRUE(pool_.abandon());
  EXPECT_TRUE(lease(first).is_open());
  turn_without_report();
  EXPECT_EQ(pool_.state().holder_of("GPU-a0")->id, first);
}

}  // namespace
}  // namespace xoe::pool::testing
