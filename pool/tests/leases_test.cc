// What users do with leases, against a clock of the test.
#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace xoe::pool::testing
