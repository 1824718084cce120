// The pool's rules, one by one, against a clock of the test.
#include "pool/core/drift.h"
#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Leases = PoolTest;

TEST_F(Leases, AskingAgainWithTheSameTokenIsTheSameLease) {
  std::int64_t first = 0;
  turn([&] { first = pool_.acquire(ann_, {.gpus = 2}, token_number(1)).value(); });
  turn([&] { EXPECT_EQ(pool_.acquire(ann_, {.gpus = 2}, token_number(1)).value(), first); });
  EXPECT_THAT(events(first), ElementsAre("asked", "granted"));
  turn([&] { EXPECT_TRUE(pool_.release(ann_, first, token_number(1), "done")); });
  turn([&] { EXPECT_TRUE(pool_.release(ann_, first, token_number(1), "again")); });
  turn([&] { EXPECT_EQ(pool_.acquire(ann_, {.gpus = 2}, token_number(1)).value(), first); });
  EXPECT_EQ(lease(first).state, LeaseState::kEnded);
  EXPECT_THAT(events(first), ElementsAre("asked", "granted", "ended"));
}

TEST_F(Leases, TheTokenOfAnotherIsRefused) {
  const auto id = acquire(ann_, {}).value();  // token 1
  acquire(bob_, {}).value();                  // token 2
  turn([&] {
    for (const auto& [user, token] : {std::pair(&ann_, 2), {&bob_, 1}, {&bob_, 2}, {&lead_, 3}}) {
      EXPECT_THAT(pool_.release(*user, id, token_number(token), "").error().message(), HasSubstr("there is none of"));
      EXPECT_FALSE(pool_.renew(*user, id, token_number(token), minutes(1)));
    }
    EXPECT_FALSE(pool_.acquire(ann_, {}, "short"));
  });
  EXPECT_TRUE(lease(id).is_open());
}

TEST_F(Leases, AllOrNothingAndNowOrNever) {
  const auto three = acquire(ann_, {.gpus = 3}).value();
  const auto two = acquire(bob_, {.gpus = 2}).value();
  EXPECT_EQ(lease(two).state, LeaseState::kEnded);
  EXPECT_THAT(lease(two).why, HasSubstr("refused: ann holds 3 GPUs (lease 1) until"));
  EXPECT_THAT(lease(two).why, HasSubstr("with --wait it would start at"));
  const auto waits = acquire(bob_, {.gpus = 2, .wait = true}).value();
  EXPECT_TRUE(lease(waits).is_waiting());
  turn([&] { EXPECT_TRUE(pool_.release(ann_, three, token_number(1), "done")); });
  EXPECT_TRUE(lease(waits).is_open());
}

TEST_F(Leases, EndWithAWarningBefore) {
  const Time begin = now_;
  const auto id = acquire(ann_, {.duration = minutes(60)}).value();
  pass(minutes(44));
  EXPECT_FALSE(lease(id).expiry_warned);
  pass(minutes(1));
  EXPECT_TRUE(lease(id).expiry_warned);
  turn([&] { EXPECT_TRUE(pool_.renew(ann_, id, token_number(1), minutes(30))); });
  EXPECT_EQ(lease(id).expires, begin + minutes(75));
  EXPECT_FALSE(lease(id).expiry_warned);
  pass(minutes(30));
  EXPECT_EQ(lease(id).state, LeaseState::kEnded);
  EXPECT_EQ(lease(id).ended, begin + minutes(75));
  EXPECT_THAT(events(id), ElementsAre("asked", "granted", "expiry-warned", "renewed", "expiry-warned", "ended"));
}

TEST_F(Leases, RenewalsOfAMinuteAreToldTogether) {
  const auto id = acquire(ann_, {.duration = minutes(60)}).value();
  const auto renewals = [&] {
    std::vector<std::string> ends;
    const auto all = pool_.store().events(0, 10000).value();
    for (const Event& event : all)
      if (event.kind == "renewed") ends.push_back(event.why);
    return ends;
  };
  std::vector<std::string> told;
  for (int i = 0; i < 1000; ++i) {
    now_ += Span(10);
    turn([&] { ASSERT_TRUE(pool_.renew(ann_, id, token_number(1), minutes(60))); });
    EXPECT_EQ(lease(id).expires, now_ + minutes(60)) << "each renewal counts";
    if (i == 0) told.push_back("until " + time_text(lease(id).expires));
  }
  EXPECT_EQ(renewals(), told);
  const Time due = now_ - Span(9990) + kLinePause;
  now_ = due - Span(1);
  turn();
  EXPECT_EQ(pool_.next_event().value(), due);
  ASSERT_TRUE(pool_.abandon());
  now_ = due;
  turn();
  told.push_back("until " + time_text(lease(id).expires));
  EXPECT_EQ(renewals(), told) << "also after a restart of the server";
  turn([&] { ASSERT_TRUE(pool_.renew(ann_, id, token_number(1), minutes(70))); });
  EXPECT_EQ(renewals(), told);
  const Time expires = lease(id).expires;
  turn([&] { ASSERT_TRUE(pool_.release(ann_, id, token_number(1), "done")); });
  told.push_back("until " + time_text(expires));
  EXPECT_EQ(renewals(), told) << "before it ends";
  EXPECT_THAT(events(id), ElementsAre("asked", "granted", "renewed", "renewed", "renewed", "ended"));
}

// Each renewal by a little makes the end near again.
TEST_F(Leases, RenewalsByALittleFillNoLog) {
  const auto id = acquire(ann_, {.gpus = 4, .duration = minutes(10)}).value();
  for (int i = 0; i < 900; ++i) {
    now_ += seconds(1);
    turn([&] { ASSERT_TRUE(pool_.renew(ann_, id, token_number(1), minutes(2))); });
  }
  const auto kinds = events(id);
  for (const char* const kind : {"renewed", "expiry-warned"}) EXPECT_LE(std::ranges::count(kinds, kind), 15) << kind;
  EXPECT_GE(std::ranges::count(kinds, "expiry-warned"), 1);
}

// A more important lease that comes and goes makes all others wait for longer each time.
TEST_F(Leases, ThoseThatWaitForLongerFillNoLog) {
  ASSERT_TRUE(acquire(bob_, {.gpus = 4, .duration = minutes(10)}));
  const auto waits = acquire(ann_, {.gpus = 4, .duration = minutes(10), .wait = true}).value();
  for (int i = 0; i < 100; ++i) {
    now_ += seconds(1);
    const auto first = acquire(lead_, {.gpus = 4, .duration = minutes(10), .priority = 5, .wait = true}).value();
    ASSERT_TRUE(lease(first).is_waiting());
    now_ += seconds(1);
    turn([&] { ASSERT_TRUE(pool_.release(lead_, first, {}, "done")); });
  }
  const auto lines = std::ranges::count(events(waits), "postponed");
  EXPECT_GE(lines, 2);
  EXPECT_LE(lines, 4);
}

TEST_F(Leases, WhatChangesNothingIsNotTold) {
  const auto id = acquire(ann_, {.duration = minutes(60)}).value();
  const auto lines = [&] { return pool_.store().last_event().value(); };
  turn([&] { ASSERT_TRUE(pool_.exempt(lead_, id, "a long compilation")); });
  const auto before = lines();
  for (int i = 0; i < 10; ++i)
    turn([&] {
      ASSERT_TRUE(pool_.exempt(lead_, id, "a long compilation"));
      ASSERT_TRUE(pool_.set_team(admin_, {.name = "x", .quota = 4}));
      ASSERT_TRUE(pool_.set_user(admin_, ann_));
    });
  EXPECT_EQ(lines(), before);
  turn([&] { ASSERT_TRUE(pool_.set_team(admin_, {.name = "x", .quota = 5})); });
  EXPECT_EQ(lines(), before + 1);
}

TEST_F(Leases, StartWhenItWasSaidAlsoWhenTheTurnIsLate) {
  acquire(ann_, {.gpus = 4, .duration = minutes(10)}).value();
  const auto next = acquire(bob_, {.gpus = 4, .duration = minutes(10), .wait = true}).value();
  const Time said = lease(next).starts.value();
  EXPECT_EQ(pool_.next_event(), now_ + policy_.host_timeout + Span(1));
  now_ = said - minutes(1);
  turn([&] { EXPECT_TRUE(pool_.report(report_of("a", 4))); });
  now_ = said + Span(40);
  turn([&] { EXPECT_TRUE(pool_.report(report_of("a", 4))); });
  EXPECT_EQ(lease(next).begins, said);
}

TEST_F(Leases, LimitsAreSaid) {
  User small = ann_;
  small.max_gpus = 1;
  const auto refused = [&](const User& user, const LeaseRequest& request) {
    const auto id = acquire(user, request);
    return id ? std::string("granted") : id.error().message();
  };
  EXPECT_EQ(refused(small, {.gpus = 2}), "ann may hold 1 GPU at once, not 2");
  EXPECT_EQ(refused(ann_, {.priority = 1}), "ann may ask with a priority of 0 at most, not 1");
  EXPECT_THAT(refused(ann_, {.gpus = 0}), HasSubstr("gpus: 0 is not between 1 and"));
  EXPECT_THAT(refused(ann_, {.duration = std::chrono::hours(1000)}), HasSubstr("lasts from 1 s to 7 d"));
  EXPECT_EQ(refused(lead_, {.priority = 5}), "granted");
}

TEST_F(Leases, OnlyGpusThatThereAreCanBeNamed) {
  const auto refused = [&](const LeaseRequest& request) { return acquire(ann_, request).error().message(); };
  EXPECT_EQ(refused({.exact = {"GPU-a0", "GPU-a1"}}), "exact: 2 GPUs named, 1 wanted");
  EXPECT_EQ(refused({.gpus = 2, .exact = {"GPU-a0", "GPU-a0"}}), "exact: GPU-a0 is named twice");
  EXPECT_EQ(refused({.exact = {"GPU-z"}}), "the pool has no GPU GPU-z");
  EXPECT_EQ(refused({.host = std::string(256, 'h')}), "host is longer than 255 bytes");
  EXPECT_THAT(lease(acquire(ann_, {.exact = {"GPU-a2"}}).value()).gpus, ElementsAre("GPU-a2"));
}

TEST_F(Leases, ALeadHasATeam) {
  User lead{.name = "eva", .role = Role::kLead, .token_hash = "e"};
  User other{.name = "tom", .token_hash = "t"};
  turn([&] {
    EXPECT_EQ(pool_.set_user(admin_, lead).error().message(), "eva needs a team to be the lead of");
    EXPECT_TRUE(pool_.set_user(admin_, other));
  });
  const auto id = acquire(other, {}).value();
  turn([&] { EXPECT_FALSE(pool_.revoke(lead, id, "mine")); });  // a lead of before there was this rule
}

// No report comes, so that turns are rare.
TEST_F(Leases, AClientThatAsksBetweenTurnsIsThere) {
  ASSERT_TRUE(acquire(ann_, {.gpus = 4, .duration = std::chrono::hours(100)}));
  const auto id = acquire(bob_, {.wait = true}).value();
  for (int i = 0; i < 30; ++i) pool_.touch(id, now_ += std::chrono::hours(1));
  turn();
  EXPECT_TRUE(lease(id).is_waiting());
  now_ += std::chrono::hours(25);
  turn();
  EXPECT_EQ(lease(id).state, LeaseState::kEnded);
}

TEST_F(Leases, TimeGoesOnAfterAClockThatWasWrong) {
  const auto id = acquire(ann_, {.duration = std::chrono::hours(100)}).value();
  now_ += std::chrono::hours(48);
  turn([&] { EXPECT_TRUE(pool_.report(report_of("a", 4))); });
  now_ -= std::chrono::hours(48);
  turn();
  EXPECT_TRUE(pool_.state().hosts.at("a").online);
  now_ += minutes(1);
  turn();
  EXPECT_FALSE(pool_.state().hosts.at("a").online);
  EXPECT_TRUE(lease(id).is_open());
}

TEST_F(Leases, ARenewalWithAClockThatWasWrongHoldsBackNoLaterLine) {
  const auto id = acquire(ann_, {.duration = std::chrono::hours(100)}).value();  // token 1
  const auto renew = [&](int hours) {
    turn([&] { ASSERT_TRUE(pool_.renew(ann_, id, token_number(1), std::chrono::hours(hours))); });
  };
  now_ += std::chrono::hours(48);
  turn([&] { EXPECT_TRUE(pool_.report(report_of("a", 4))); });
  renew(100);
  now_ -= std::chrono::hours(48);
  turn();
  renew(160);
  now_ += minutes(2);
  turn();
  EXPECT_EQ(std::ranges::count(events(id), "renewed"), 2);
}

TEST_F(Leases, AReservationIsGrantedOrRefusedAtOnce) {
  const Time later = now_ + minutes(30);
  acquire(ann_, {.gpus = 3, .duration = minutes(60)}).value();
  const auto refused = acquire(bob_, {.gpus = 2, .at = later}).value();
  EXPECT_THAT(lease(refused).why, HasSubstr("refused: no GPU is free for the whole time from"));
  const auto reserved = acquire(bob_, {.gpus = 1, .at = later}).value();
  EXPECT_EQ(lease(reserved).starts, later);
  EXPECT_THAT(events(reserved), ElementsAre("asked", "reserved"));
  pass(minutes(30));
  EXPECT_TRUE(lease(reserved).is_open());
}

TEST_F(Leases, ALeadEndsThoseOfTheTeam) {
  const auto id = acquire(ann_, {}).value();
  turn([&] {
    EXPECT_FALSE(pool_.revoke(bob_, id, "mine"));
    EXPECT_TRUE(pool_.revoke(lead_, id, "needed for the demo"));
  });
  EXPECT_EQ(lease(id).why, "needed for the demo");
}

TEST_F(Leases, WhoseClientIsGoneLeaveTheQueue) {
  acquire(ann_, {.gpus = 4, .duration = std::chrono::hours(100)}).value();
  const auto there = acquire(bob_, {.wait = true}).value();
  const auto gone = acquire(bob_, {.wait = true}).value();
  for (int i = 0; i < 25; ++i) {
    pass(std::chrono::hours(1));
    pool_.touch(there, now_);
  }
  EXPECT_TRUE(lease(there).is_waiting());
  EXPECT_EQ(lease(gone).why, "its client was silent for 24 h");
}

class GivesWay : public PoolTest {
 protected:
  GivesWay()
      : PoolTest({.min_runtime = minutes(0), .give_way = GiveWayPolicy::kReclaim, .give_way_grace = minutes(5)}) {}
};

TEST_F(GivesWay, ToAMoreImportantLeaseWhichStartsAsItWasSaid) {
  const auto holder = acquire(ann_, {.gpus = 4}).value();
  now_ += seconds(1);
  const auto urgent = acquire(lead_, {.priority = 5, .wait = true}).value();
  const Time said = lease(urgent).starts.value();
  EXPECT_EQ(said, now_ + minutes(5));
  turn([&] { EXPECT_FALSE(pool_.renew(ann_, holder, token_number(1), std::chrono::hours(9))); });
  for (int i = 0; i < 5; ++i) {
    pool_.touch(urgent, now_);
    pass(minutes(1));
  }
  EXPECT_EQ(lease(urgent).begins, said);
  EXPECT_EQ(lease(holder).why, fmt::format("gave way to lease {}", urgent));
}

TEST_F(GivesWay, NotIfThatOneNoLongerWaits) {
  const auto holder = acquire(ann_, {.gpus = 4}).value();
  now_ += seconds(1);
  const auto urgent = acquire(lead_, {.priority = 5, .wait = true}).value();
  EXPECT_TRUE(lease(holder).give_way);
  turn([&] { EXPECT_TRUE(pool_.release(lead_, urgent, token_number(2), "found another way")); });
  EXPECT_FALSE(lease(holder).give_way);
  pass(minutes(10));
  EXPECT_TRUE(lease(holder).is_open());
  EXPECT_THAT(events(holder), ElementsAre("asked", "granted", "give-way", "give-way-over"));
}

class Yields : public PoolTest {
 protected:
  Yields() : PoolTest({.give_way = GiveWayPolicy::kOff, .give_way_grace = minutes(5)}) {}
  LeaseRequest yielding() const { return {.yields = true, .priority = -1, .wait = true}; }
};

TEST_F(Yields, ALeaseThatSaidSoAtAnyTimeAndWhateverTheRule) {
  const auto base = acquire(ann_, {.gpus = 2}).value();
  const auto first = acquire(ann_, yielding()).value();
  const auto second = acquire(ann_, yielding()).value();
  now_ += seconds(1);
  const auto other = acquire(bob_, {.wait = true}).value();
  EXPECT_FALSE(lease(base).give_way);
  EXPECT_NE(lease(first).give_way.has_value(), lease(second).give_way.has_value());
  EXPECT_EQ(lease(other).starts, now_ + minutes(5));
  const auto asked = lease(first).give_way ? first : second;
  const auto token = token_number(asked == first ? 2 : 3);
  now_ += seconds(1);
  turn([&] { EXPECT_TRUE(pool_.release(ann_, asked, token, "released")); });
  EXPECT_EQ(lease(other).begins, now_);
}

TEST_F(Yields, OneAfterTheOtherAlthoughTheyStandInTheQueueAgain) {
  ASSERT_TRUE(acquire(ann_, {.gpus = 1}));
  std::vector<std::int64_t> extras;
  for (int i = 0; i < 3; ++i) extras.push_back(acquire(ann_, yielding()).value());
  for (int i = 0; i < 3; ++i) {
    now_ += seconds(1);
    const auto other = acquire(bob_, {.wait = true}).value();
    std::int64_t asked = 0;
    for (const auto extra : extras)
      if (lease(extra).is_open() && lease(extra).give_way) asked = extra;
    ASSERT_NE(asked, 0) << i;
    now_ += seconds(1);
    turn([&] { EXPECT_TRUE(pool_.revoke(admin_, asked, "left")); });
    EXPECT_TRUE(lease(other).is_open());
    extras.push_back(acquire(ann_, yielding()).value());
    EXPECT_TRUE(lease(extras.back()).is_waiting());
  }
}

TEST_F(Yields, NotToItsEquals) {
  ASSERT_TRUE(acquire(ann_, {.gpus = 3}));
  const auto extra = acquire(ann_, yielding()).value();
  now_ += seconds(1);
  LeaseRequest same = yielding();
  ASSERT_TRUE(acquire(bob_, same));
  EXPECT_FALSE(lease(extra).give_way);
}

using Hosts = PoolTest;

TEST_F(Hosts, OneThatWasNamedGivesTheGpus) {
  turn([&] { EXPECT_TRUE(pool_.report(report_of("b", 2))); });
  EXPECT_THAT(lease(acquire(ann_, {.gpus = 2, .host = "b"}).value()).gpus, ElementsAre("GPU-b0", "GPU-b1"));
  const auto more = acquire(ann_, {.host = "b"}).value();
  EXPECT_EQ(lease(more).state, LeaseState::kEnded);
}

TEST_F(Hosts, ThatAreSilentGiveNoGpuAndKeepTheirLeases) {
  const auto id = acquire(ann_, {}).value();
  now_ += minutes(1);
  turn();
  EXPECT_FALSE(pool_.state().hosts.at("a").online);
  EXPECT_TRUE(lease(id).is_open());
  EXPECT_THAT(find_drift(pool_.state(), now_).at(0).what, HasSubstr("leased by ann, but not seen"));
  const auto waits = acquire(bob_, {.wait = true}).value();
  EXPECT_THAT(lease(waits).why, HasSubstr("is offline"));
  turn([&] { EXPECT_TRUE(pool_.report(report_of("a", 4))); });
  EXPECT_TRUE(lease(waits).is_open());
}

TEST_F(Hosts, ARequestThatIsSentAgainHasItsForm) {
  pass(seconds(30), [](HostReport& report) { report.activity[0].processes = {{.pid = 7, .user = "ann"}}; });
  const LeaseRequest request{.gpus = 1, .exact = {"GPU-a0"}};
  std::int64_t first = 0;
  turn([&] { first = pool_.adopt(ann_, request, token_number(1)).value(); });
  for (const auto& spoil :
       {+[](LeaseRequest& some) { some.vm = std::string(1000, 'v'); }, +[](LeaseRequest& some) { some.gpus = 0; },
        +[](LeaseRequest& some) { some.purpose = "\x1b[2J"; },
        +[](LeaseRequest& some) { some.exact.push_back("b"); }}) {
    LeaseRequest spoilt = request;
    spoil(spoilt);
    turn([&] {
      EXPECT_EQ(pool_.adopt(ann_, spoilt, token_number(1)).error().code(), Code::kInvalidArgument);
      EXPECT_EQ(pool_.acquire(ann_, spoilt, token_number(1)).error().code(), Code::kInvalidArgument);
    });
  }
  turn([&] { EXPECT_EQ(pool_.adopt(ann_, request, token_number(1)).value(), first); });
}

TEST_F(Hosts, AGpuInUseWithoutALeaseIsShownAndMayBeAdopted) {
  pass(seconds(30), [](HostReport& report) { report.activity[0].processes = {{.pid = 7, .user = "bob"}}; });
  EXPECT_EQ(find_drift(pool_.state(), now_).at(0).what, "in use without a lease by bob (process 7)");
  const auto id = acquire(ann_, {.gpus = 4}).value();
  EXPECT_EQ(lease(id).state, LeaseState::kEnded);
  LeaseRequest adopted{.gpus = 1, .exact = {"GPU-a0"}};
  turn([&] { EXPECT_THAT(pool_.adopt(ann_, adopted, token_number(50)).error().message(), HasSubstr("not yours")); });
  std::int64_t taken = 0;
  turn([&] { taken = pool_.adopt(bob_, adopted, token_number(51)).value(); });
  EXPECT_THAT(lease(taken).gpus, ElementsAre("GPU-a0"));
  EXPECT_THAT(find_drift(pool_.state(), now_), IsEmpty());
}

// It would not be counted as used or idle by anybody.
TEST_F(Hosts, AGpuOfAHostIsNotAdoptedForSlurm) {
  pass(seconds(30), [](HostReport& report) { report.activity[0].processes = {{.pid = 7, .user = "bob"}}; });
  turn([&] {
    const auto taken = pool_.adopt(bob_, {.gpus = 1, .exact = {"GPU-a0"}, .slurm = true}, token_number(50));
    EXPECT_EQ(taken.error().message(), "adopt: GPU-a0 is not a GPU of a Slurm cluster");
  });
}

TEST_F(Hosts, AGpuIsFreeWhenTheFormerProgramIsGone) {
  const auto in_use = [](HostReport& report) {
    for (GpuActivity& activity : report.activity) activity.processes = {{.pid = 7, .user = "ann"}};
  };
  const auto first = acquire(ann_, {.gpus = 4, .duration = minutes(5)}).value();
  const auto next = acquire(bob_, {.gpus = 4, .wait = true}).value();
  pass(minutes(5), in_use);
  EXPECT_EQ(lease(first).state, LeaseState::kEnded);
  EXPECT_TRUE(lease(next).is_waiting());
  EXPECT_THAT(lease(next).why, HasSubstr("in use without a lease by ann (process 7)"));
  pass(seconds(30));
  EXPECT_TRUE(lease(next).is_open());
  // Who gives it back may have left a process there.
  pass(seconds(30), in_use);
  const auto last = acquire(ann_, {.gpus = 4, .wait = true}).value();
  turn([&] { EXPECT_TRUE(pool_.release(bob_, next, token_number(2), "done")); });
  EXPECT_TRUE(lease(last).is_waiting());
  pass(seconds(30));
  EXPECT_TRUE(lease(last).is_open());
}

TEST_F(Hosts, EachHasOneAgent) {
  User agent{.name = "node-b", .role = Role::kAgent, .token_hash = "n"};
  turn([&] {
    EXPECT_TRUE(pool_.set_user(admin_, agent));
    EXPECT_TRUE(pool_.report(report_of("b", 2), "node-b"));
    EXPECT_THAT(pool_.report(report_of("b", 0), "node-c").error().message(), HasSubstr("host b is reported by node-b"));
    HostReport stolen = report_of("c", 1);
    stolen.gpus[0].uuid = "GPU-a0";
    EXPECT_EQ(pool_.report(stolen, "node-c").error().message(), "GPU-a0 is a GPU of host a, not of c");
  });
  now_ += minutes(5);
  turn();
  ASSERT_TRUE(pool_.abandon());  // it is stored
  turn([&] {
    HostReport stolen = report_of("c", 1);
    stolen.gpus[0].uuid = "GPU-b0";  // also while its host is silent
    EXPECT_FALSE(pool_.report(stolen, "node-c"));
    EXPECT_FALSE(pool_.report(report_of("b", 2), "node-c"));
    EXPECT_TRUE(pool_.report(report_of("b", 2)));  // an admin
    EXPECT_TRUE(pool_.remove_user(admin_, "node-b"));
    EXPECT_TRUE(pool_.report(report_of("b", 2), "node-c"));
  });
}

TEST_F(Hosts, UsageIsCountedByWhoHeldWhat) {
  const Time begin = now_;
  acquire(ann_, {.gpus = 2}).value();
  pass(minutes(60),
       [&](HostReport& report) { report.activity[0] = {.utilisation = 90, .processes = {{.pid = 7, .user = "ann"}}}; });
  Span held{0}, busy{0}, idle{0};
  const auto rows = pool_.store().usage(hour_of(begin), now_, now_);
  for (const UsageRow& row : *rows) {
    EXPECT_EQ(row.user, "ann");
    EXPECT_EQ(row.team, "x");
    held += row.held;
    busy += row.busy;
    idle += row.idle;
  }
  EXPECT_EQ(held, minutes(120));
  EXPECT_NEAR(static_cast<double>(busy / seconds(1)), 3600, 61);
  EXPECT_NEAR(static_cast<double>(idle / seconds(1)), 3600, 61);
}

class Vms : public PoolTest {
 protected:
  void tell(std::vector<std::string> users) {
    HostReport report{.host = "esx"};
    report.gpus = {{.uuid = "vsphere:esx:1", .host = "esx", .name = "Tesla T4"}};
    report.activity.resize(1);
    report.vms = {{.name = "python", .host = "esx", .has_reserved = true, .users = std::move(users)}};
    turn([&] { EXPECT_TRUE(pool_.report(report)); });
  }
  User eve_{.name = "eve", .token_hash = "e"};
};

TEST_F(Vms, AreForThoseWhomTheirAgentNames) {
  turn([&] { EXPECT_TRUE(pool_.set_user(admin_, eve_)); });
  const LeaseRequest request{.wait = true, .vm = "python"};
  tell({"eve", "@y"});
  EXPECT_THAT(acquire(ann_, request).error().message(), HasSubstr("VM python is for eve, @y, not for ann"));
  EXPECT_TRUE(acquire(admin_, request));
  EXPECT_TRUE(acquire(eve_, request));
  tell({"@x"});
  EXPECT_TRUE(acquire(bob_, request));
  EXPECT_FALSE(acquire(eve_, request));  // no team is not a team named ""
  tell({"@"});
  EXPECT_FALSE(acquire(eve_, request));
  tell({});
  EXPECT_TRUE(acquire(eve_, request));
}

TEST_F(Vms, AListThatChangesEndsWhatWaitsAndNoMore) {
  tell({"@x"});
  const LeaseRequest request{.wait = true, .vm = "python"};
  const auto open = acquire(ann_, request).value();
  const auto waits = acquire(bob_, request).value();
  tell({"eve"});
  EXPECT_TRUE(lease(open).is_open());
  EXPECT_EQ(lease(waits).why, "VM python is not for bob any more");
}

class Guarded : public PoolTest {
 protected:
  // The agent's word on GPU 0: who can open it.
  void tell(const std::vector<std::string>& users) {
    HostReport report = report_of("a", 4);
    report.activity[0].open_to = users;
    turn([&] { EXPECT_TRUE(pool_.report(report)); });
  }
};

TEST_F(Guarded, AHolderWaitsUntilItsAgentHasOpenedTheFile) {
  tell({});
  const auto id = acquire(ann_, {.exact = {"GPU-a0"}}).value();
  EXPECT_TRUE(pool_.state().is_guarded(lease(id)));
  EXPECT_TRUE(pool_.state().is_closed_to_holder(lease(id)));
  ASSERT_EQ(holders_on(pool_.state(), "a").size(), 1U);
  EXPECT_EQ(holders_on(pool_.state(), "a")[0].gpu, "GPU-a0");
  EXPECT_EQ(holders_on(pool_.state(), "a")[0].user, "ann");
  EXPECT_TRUE(holders_on(pool_.state(), "b").empty());
  EXPECT_THAT(find_drift(pool_.state(), now_), IsEmpty());
  const auto drift = find_drift(pool_.state(), now_ + seconds(11));
  ASSERT_EQ(drift.size(), 1U);
  EXPECT_EQ(drift[0].what, "leased by ann, to whom its device file is closed");
  tell({"ann"});
  EXPECT_FALSE(pool_.state().is_closed_to_holder(lease(id)));
  // The next lease waits for a report of its own time, also where its holder is the same.
  turn([&] { EXPECT_TRUE(pool_.release(ann_, id, {}, "done")); });
  tell({"ann"});
  const auto next = acquire(ann_, {.exact = {"GPU-a0"}}).value();
  EXPECT_TRUE(pool_.state().is_closed_to_holder(lease(next)));
  const auto unguarded = acquire(ann_, {.exact = {"GPU-a1"}}).value();
  EXPECT_FALSE(pool_.state().is_guarded(lease(unguarded)));
  EXPECT_FALSE(pool_.state().is_closed_to_holder(lease(unguarded)));
}

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
