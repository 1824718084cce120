// What agents tell of hosts, GPUs, virtual machines and device files.
#include "pool/core/drift.h"
#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

// They stand in tables, paths and command lines.
TEST_F(Hosts, HaveNamesThatHideNothing) {
  const std::string longer(256, 'h');
  turn([&] {
    for (const std::string name : {"../x", "=cmd", "-rf", "a b", "a,b", "a/b", "a\u202eb", "a\u200bb",
                                   "a\xc2\x85"
                                   "b",
                                   ":b", "", longer.c_str()}) {
      const Status told = pool_.report({.host = name});
      EXPECT_EQ(told.error().code(), Code::kInvalidArgument);
      EXPECT_THAT(told.error().message(), HasSubstr("cannot be the name of a host: a name has up to 255 letters"));
    }
    for (const std::string name : {"node-1.lab.example", "DC0_H0", "_x", "10.0.0.7", "fe80::1", "a@b", "a+b"})
      EXPECT_TRUE(pool_.report({.host = name}));
    EXPECT_TRUE(pool_.report({.host = std::string(255, 'h')}));
  });
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

// Rows that reports have made, and those that follow from a lease.
TEST_F(Hosts, AnAnswerOfUsageIsLimited) {
  const Time from = hour_of(now_) - std::chrono::hours(24 * 365);
  ASSERT_TRUE(pool_.store().begin());
  std::size_t rows = 0;
  for (Time hour = from; rows < kMostUsageRows; hour += std::chrono::hours(1))
    for (int i = 0; i < 20 && rows < kMostUsageRows; ++i, ++rows)
      ASSERT_TRUE(pool_.store().add_usage({.hour = hour, .user = fmt::format("user{}", i), .busy = Span(1)}));
  ASSERT_TRUE(pool_.store().commit());
  const auto usage = [&](Time since) { return pool_.store().usage(since, now_ + std::chrono::hours(2), now_); };
  ASSERT_TRUE(usage(from));
  EXPECT_EQ(usage(from)->size(), kMostUsageRows);
  const auto id = acquire(ann_, {}).value();
  now_ += minutes(1);
  EXPECT_EQ(usage(from).error().code(), Code::kInvalidArgument);
  EXPECT_THAT(usage(from).error().message(), HasSubstr("more than 100000 rows: ask for fewer days"));
  EXPECT_TRUE(usage(from + std::chrono::hours(1)));
  turn([&] { ASSERT_TRUE(pool_.release(ann_, id, {}, "done")); });
  ASSERT_TRUE(pool_.store().add_usage({.hour = from, .user = "ann", .busy = Span(1)}));
  EXPECT_FALSE(usage(from));
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

}  // namespace
}  // namespace xoe::pool::testing
