// The scheduler against a reference that tries every minute and every set of GPUs.
#include <gmock/gmock.h>

#include <bit>
#include <random>

#include "pool/scheduler/timetable.h"
#include "pool/tests/simulation.h"

namespace xoe::pool::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Interval {
  const Lease* lease;
  Time from, to;
  const std::vector<std::string>* gpus;
};

std::vector<Interval> intervals_of(const State& state) {
  std::vector<Interval> all;
  for (const auto& [id, lease] : state.leases) {
    if (lease.is_open()) all.push_back({&lease, lease.begins, lease.ends(), &lease.gpus});
    if (lease.is_waiting() && lease.starts)
      all.push_back({&lease, *lease.starts, *lease.starts + lease.request.duration, &lease.gpus});
  }
  return all;
}

// --- the reference: plain definitions ---

bool position_is_right(const State& state, const LeaseRequest& request, const std::vector<std::string>& gpus) {
  if (gpus.size() != static_cast<std::size_t>(request.gpus)) return false;
  for (const std::string& uuid : gpus) {
    const Gpu& gpu = state.gpus.at(uuid);
    if (!request.type.empty() && gpu.name.find(request.type) == std::string::npos) return false;
    if (gpu.memory < request.memory || !state.is_present(gpu)) return false;
    if (!request.any_host && gpu.host != state.gpus.at(gpus[0]).host) return false;
    for (const std::string& other : gpus)
      if (request.same_nvlink && other != uuid && std::ranges::find(gpu.nvlinks, other) == gpu.nvlinks.end())
        return false;
  }
  return true;
}

// GPUs that the lease's team can count on; a lease for more than that has no place within the quota.
std::optional<int> quota_of(const State& state, const Lease& lease) {
  const auto team = state.teams.find(lease.team);
  if (team == state.teams.end() || lease.request.gpus > team->second.quota) return std::nullopt;
  return team->second.quota;
}

int limit_of(const State& state, const Lease& lease) {
  const auto user = state.users.find(lease.user);
  return user == state.users.end() || user->second.max_gpus == 0 ? 1000 : user->second.max_gpus;
}

// Whether the lease could start at `start` if those of its priority and above, and open ones, stay where they are. It
// may borrow beyond its team's quota only now.
bool could_start(const State& state, const Lease& lease, Time start, Time now) {
  std::vector<Interval> others;
  for (const Interval& interval : intervals_of(state))
    if (interval.lease != &lease &&
        (interval.lease->is_open() || interval.lease->request.priority >= lease.request.priority))
      others.push_back(interval);
  const Time end = start + lease.request.duration;
  const auto quota = quota_of(state, lease);
  for (Time moment = start; moment < end; moment += minutes(1)) {
    int of_user = lease.request.gpus;
    int of_team = lease.request.gpus;
    for (const Interval& other : others) {
      if (other.from > moment || moment >= other.to) continue;
      const int gpus = static_cast<int>(other.gpus->size());
      of_user += other.lease->user == lease.user ? gpus : 0;
      of_team += other.lease->team == lease.team ? gpus : 0;
    }
    if (of_user > limit_of(state, lease) || (quota && start > now && of_team > *quota)) return false;
  }
  std::vector<std::string> free;
  for (const auto& [uuid, gpu] : state.gpus)
    if (std::ranges::none_of(others, [&, &name = uuid](const Interval& other) {
          return other.from < end && start < other.to && std::ranges::find(*other.gpus, name) != other.gpus->end();
        }))
      free.push_back(uuid);
  for (unsigned set = 0; set < 1U << free.size(); ++set) {
    if (std::popcount(set) != lease.request.gpus) continue;
    std::vector<std::string> gpus;
    for (std::size_t i = 0; i < free.size(); ++i)
      if ((set >> i & 1) != 0) gpus.push_back(free[i]);
    if (position_is_right(state, lease.request, gpus)) return true;
  }
  return false;
}

void expect_sound(const Simulation& pool) {
  const State& state = pool.state;
  const auto all = intervals_of(state);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_TRUE(position_is_right(state, all[i].lease->request, *all[i].gpus)) << "lease " << all[i].lease->id;
    for (std::size_t j = 0; j < i; ++j) {
      if (!(all[i].from < all[j].to && all[j].from < all[i].to)) continue;
      for (const std::string& gpu : *all[i].gpus)
        ASSERT_EQ(std::ranges::find(*all[j].gpus, gpu), all[j].gpus->end())
            << gpu << " is given to leases " << all[j].lease->id << " and " << all[i].lease->id;
    }
    int held = 0;  // it can only rise where one begins
    for (const Interval& other : all)
      if (other.from <= all[i].from && all[i].from < other.to && other.lease->user == all[i].lease->user)
        held += static_cast<int>(other.gpus->size());
    ASSERT_LE(held, limit_of(state, *all[i].lease));
  }
}

void expect_earliest(const Simulation& pool) {
  for (const auto& [id, lease] : pool.state.leases) {
    if (!lease.is_waiting() || lease.request.at) continue;
    const Time end = lease.starts.value_or(pool.now + minutes(300));
    for (Time start = pool.now; start < end; start += minutes(1))
      ASSERT_FALSE(could_start(pool.state, lease, start, pool.now))
          << "lease " << id << " could start at minute " << start.time_since_epoch() / minutes(1) << " instead of "
          << end.time_since_epoch() / minutes(1);
    ASSERT_TRUE(lease.starts == pool.now || !lease.why.empty());
  }
}

struct Kind {
  bool priorities = false;
  bool teams = false;
  bool limits = false;
  bool renewals = false;
  bool early_ends = false;
};

class RandomPool {
 public:
  RandomPool(unsigned seed, Kind kind) : random_(seed), kind_(kind) {
    add_hosts(pool_.state, pick(2) == 0 ? std::vector{4} : std::vector{2, 3});
    pool_.state.policy.give_way = GiveWayPolicy::kOff;
    if (kind.teams) pool_.state.teams = {{"x", {.name = "x", .quota = 2}}, {"y", {.name = "y", .quota = 2}}};
    if (kind.limits)
      for (int i = 0; i < 4; ++i) pool_.state.users[user(i)] = {.name = user(i), .max_gpus = 2 + i % 2};
    pool_.on_plan = [this] { check_plan(); };
    pool_.on_start = [this](const Lease& lease) {
      if (promised_.contains(lease.id) && exact()) {
        EXPECT_EQ(lease.begins, promised_.at(lease.id));
      }
      promised_.erase(lease.id);
    };
  }

  // How often a lease that waited was compared with the reference.
  int run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFatalFailure(); ++step) this->step();
    return compared_;
  }

 private:
  int pick(int count) { return std::uniform_int_distribution(0, count - 1)(random_); }
  static std::string user(int i) { return std::string("user") + std::to_string(i); }
  bool exact() const { return !kind_.priorities && !kind_.teams && !kind_.early_ends; }

  void step() {
    const int action = pick(10);
    if (action < 4) {
      const int who = pick(4);
      LeaseRequest request{.gpus = 1 + pick(2), .duration = minutes(1 + pick(12)), .wait = true};
      if (pick(4) == 0) request.type = "T4";
      if (pick(4) == 0) request.same_nvlink = true;
      if (pick(6) == 0) request.any_host = true;
      if (kind_.priorities) request.priority = pick(3);
      pool_.ask(user(who), request, kind_.teams ? (who < 2 ? "x" : "y") : "");
    } else if (action < 6) {
      std::vector<std::int64_t> open;
      for (const auto& [id, lease] : pool_.state.leases)
        if (lease.is_open()) open.push_back(id);
      if (open.empty()) return;
      const std::int64_t id = open[static_cast<std::size_t>(pick(static_cast<int>(open.size())))];
      if (kind_.early_ends && pick(2) == 0) {
        pool_.release(id);
      } else if (kind_.renewals) {
        pool_.renew(id, pool_.now + minutes(1 + pick(12)));
      }
    } else {
      pool_.advance(pool_.now + minutes(1 + pick(3)));
    }
  }

  void check_plan() {
    expect_sound(pool_);
    expect_earliest(pool_);
    for (const auto& [id, lease] : pool_.state.leases) {
      if (!lease.is_waiting()) continue;
      ++compared_;
      ASSERT_TRUE(lease.starts) << "lease " << id << ": " << lease.why;
      const auto before = promised_.find(id);
      if (before != promised_.end() && !kind_.priorities && !kind_.teams) {
        ASSERT_LE(*lease.starts, before->second) << "lease " << id << " is later than it was said";
      }
      promised_[id] = *lease.starts;
    }
  }

  std::mt19937 random_;
  Kind kind_;
  Simulation pool_;
  std::map<std::int64_t, Time> promised_;
  int compared_ = 0;
};

void try_kind(Kind kind) {
  const unsigned seeds = XOE_SANITIZED ? 10 : 100;
  int compared = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    compared += RandomPool(seed, kind).run(100);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(compared, 100 * static_cast<int>(seeds));
}

TEST(RandomPlans, WithoutEarlyEndsStartsAreExact) { try_kind({.renewals = true}); }
TEST(RandomPlans, NoneIsLaterThanItWasSaid) { try_kind({.limits = true, .renewals = true, .early_ends = true}); }
TEST(RandomPlans, WithPriorities) { try_kind({.priorities = true, .limits = true, .early_ends = true}); }
TEST(RandomPlans, WithTeamsThatBorrow) { try_kind({.priorities = true, .teams = true, .early_ends = true}); }

// --- rules one by one ---

Simulation four_gpus() {
  Simulation pool;
  add_hosts(pool.state, {4});
  return pool;
}

TEST(Queue, ALaterLeasePassesAnEarlierOneOnlyWhereItEndsBefore) {
  Simulation pool = four_gpus();
  pool.ask("ann", {.gpus = 3, .duration = minutes(10)});
  const auto large = pool.ask("bob", {.gpus = 4, .duration = minutes(10)});
  const auto fits = pool.ask("cat", {.gpus = 1, .duration = minutes(10)});
  const auto late = pool.ask("dan", {.gpus = 1, .duration = minutes(11)});
  EXPECT_EQ(pool.state.leases.at(large).starts, at(10));
  EXPECT_TRUE(pool.state.leases.at(fits).is_open());
  EXPECT_EQ(pool.state.leases.at(late).starts, at(20));
  EXPECT_THAT(pool.state.leases.at(large).why, HasSubstr("ann holds 3 GPUs (lease 1) until 1970-01-01 00:10:00 UTC"));
  EXPECT_THAT(pool.state.leases.at(late).why, HasSubstr("lease 2 of bob goes first"));
  EXPECT_EQ(pool.state.leases.at(large).position, 1);
  EXPECT_EQ(pool.state.leases.at(late).position, 2);
}

TEST(Queue, MoreImportantLeasesGoFirst) {
  Simulation pool = four_gpus();
  pool.ask("ann", {.gpus = 4, .duration = minutes(10)});
  const auto low = pool.ask("bob", {.gpus = 4, .duration = minutes(10)});
  const auto high = pool.ask("cat", {.gpus = 4, .duration = minutes(5), .priority = 1});
  EXPECT_EQ(pool.state.leases.at(high).starts, at(10));
  EXPECT_EQ(pool.state.leases.at(low).starts, at(15));
}

TEST(Queue, ALeaseIsRenewedOnlyWhereNoPromiseIsBroken) {
  Simulation pool = four_gpus();
  const auto first = pool.ask("ann", {.gpus = 4, .duration = minutes(10)});
  pool.ask("bob", {.gpus = 1, .duration = minutes(10)});
  EXPECT_FALSE(pool.renew(first, at(11)));
  EXPECT_EQ(promise_before(pool.state, pool.state.leases.at(first), at(11))->user, "bob");
  pool.release(2);
  EXPECT_TRUE(pool.renew(first, at(11)));
}

TEST(Quota, TheStartThatIsSaidIsWithinItAndBorrowersGoBehind) {
  Simulation pool = four_gpus();
  pool.state.teams = {{"x", {.name = "x", .quota = 2}}, {"y", {.name = "y", .quota = 2}}};
  pool.ask("ann", {.gpus = 4, .duration = minutes(10)}, "x");
  const auto next = pool.ask("ann", {.gpus = 2, .duration = minutes(10)}, "x");
  const auto third = pool.ask("ann", {.gpus = 2, .duration = minutes(10)}, "x");
  EXPECT_EQ(pool.state.leases.at(next).starts, at(10));
  EXPECT_EQ(pool.state.leases.at(third).starts, at(20));  // although no other team waits yet
  EXPECT_THAT(pool.state.leases.at(third).why, HasSubstr("lease 2 of ann goes first"));
  const auto large = pool.ask("bob", {.gpus = 4, .duration = minutes(10)}, "y");
  const auto own = pool.ask("bob", {.gpus = 2, .duration = minutes(10)}, "y");
  EXPECT_TRUE(pool.state.leases.at(large).borrowed);
  EXPECT_EQ(pool.state.leases.at(large).starts, at(30));
  EXPECT_EQ(pool.state.leases.at(large).position, 4);
  EXPECT_FALSE(pool.state.leases.at(own).borrowed);
  EXPECT_EQ(pool.state.leases.at(own).starts, at(10));
  pool.release(own);
  pool.advance(at(10));
  EXPECT_TRUE(pool.state.leases.at(third).is_open());  // what team y does not use now is lent
  EXPECT_TRUE(pool.state.leases.at(third).borrowed);
}

TEST(Quota, ATeamThatMayNotBorrowStaysWithinIt) {
  Simulation pool = four_gpus();
  pool.state.teams["x"] = {.name = "x", .quota = 2, .may_borrow = false};
  pool.ask("ann", {.gpus = 2, .duration = minutes(10)}, "x");
  const auto second = pool.ask("amy", {.gpus = 1, .duration = minutes(10)}, "x");
  EXPECT_EQ(pool.state.leases.at(second).starts, at(10));
  EXPECT_THAT(pool.state.leases.at(second).why, HasSubstr("team x has its limit of 2 GPUs until"));
}

TEST(Reservation, HoldsItsTimeAgainstLaterLeases) {
  Simulation pool = four_gpus();
  const auto reserved = pool.ask("ann", {.gpus = 4, .duration = minutes(10), .at = at(30)});
  const auto before = pool.ask("bob", {.gpus = 4, .duration = minutes(30)});
  const auto after = pool.ask("cat", {.gpus = 1, .duration = minutes(31)});
  EXPECT_EQ(pool.state.leases.at(reserved).starts, at(30));
  EXPECT_TRUE(pool.state.leases.at(before).is_open());
  EXPECT_EQ(pool.state.leases.at(after).starts, at(40));
  pool.advance(at(30));
  EXPECT_TRUE(pool.state.leases.at(reserved).is_open());
}

TEST(GiveWay, HoldersAreAskedAfterTheirMinimumRuntime) {
  Simulation pool = four_gpus();
  pool.state.policy.give_way = GiveWayPolicy::kReclaim;
  pool.state.policy.min_runtime = minutes(20);
  pool.state.policy.give_way_grace = minutes(5);
  const auto holder = pool.ask("ann", {.gpus = 4, .duration = minutes(100)});
  pool.advance(at(1));
  const auto urgent = pool.ask("bob", {.gpus = 1, .duration = minutes(10), .priority = 1});
  ASSERT_TRUE(pool.state.leases.at(holder).give_way);
  EXPECT_EQ(pool.state.leases.at(holder).give_way->by, at(20));
  EXPECT_EQ(pool.state.leases.at(urgent).starts, at(20));
  pool.advance(at(20));
  EXPECT_TRUE(pool.state.leases.at(urgent).is_open());
  EXPECT_FALSE(pool.state.leases.contains(holder));
}

TEST(GiveWay, ABorrowerGivesWayToTheOwnerOfTheQuotaAndNoOneElse) {
  Simulation pool = four_gpus();
  pool.state.policy.give_way = GiveWayPolicy::kReclaim;
  pool.state.policy.min_runtime = minutes(0);
  pool.state.teams = {{"x", {.name = "x", .quota = 2}}, {"y", {.name = "y", .quota = 2}}};
  const auto own = pool.ask("ann", {.gpus = 2, .duration = minutes(100)}, "x");
  const auto borrowed = pool.ask("ann", {.gpus = 2, .duration = minutes(100)}, "x");
  pool.advance(at(1));
  const auto owner = pool.ask("bob", {.gpus = 2, .duration = minutes(10)}, "y");
  EXPECT_FALSE(pool.state.leases.at(own).give_way);
  ASSERT_TRUE(pool.state.leases.at(borrowed).give_way);
  EXPECT_EQ(pool.state.leases.at(owner).starts, at(6));
  pool.ask("bob", {.gpus = 1, .duration = minutes(10)}, "y");  // would borrow itself
  EXPECT_FALSE(pool.state.leases.at(own).give_way);
}

TEST(Choice, KeepsLinkedPairsTogether) {
  Simulation pool = four_gpus();
  const auto single = pool.ask("ann", {.gpus = 1, .duration = minutes(10)});
  const auto other = pool.ask("bob", {.gpus = 1, .duration = minutes(10)});
  const auto pair = pool.ask("cat", {.gpus = 2, .same_nvlink = true, .duration = minutes(10)});
  EXPECT_THAT(pool.state.leases.at(single).gpus, ElementsAre("GPU-a0"));
  EXPECT_THAT(pool.state.leases.at(other).gpus, ElementsAre("GPU-a1"));
  EXPECT_THAT(pool.state.leases.at(pair).gpus, ElementsAre("GPU-a2", "GPU-a3"));
}

TEST(Choice, SaysWhatIsMissing) {
  Simulation pool = four_gpus();
  const auto why = [&](LeaseRequest request) { return pool.state.leases.at(pool.ask("ann", std::move(request))).why; };
  EXPECT_THAT(why({.gpus = 5}), HasSubstr("the pool has 4 GPUs, and 5 are asked for"));
  EXPECT_THAT(why({.gpus = 3, .same_nvlink = true}), HasSubstr("no host has 3 such GPUs with NVLinks"));
  EXPECT_THAT(why({.gpus = 1, .type = "H100"}), HasSubstr("the pool has 0 GPUs of type H100"));
  pool.state.activity.at("GPU-a2").processes = {{.pid = 77, .user = "eve"}};
  EXPECT_THAT(why({.gpus = 1, .type = "a100"}), HasSubstr("GPU-a2 on a is in use without a lease by eve (process 77)"));
  pool.state.activity.erase("GPU-a2");
  EXPECT_THAT(why({.gpus = 1, .type = "a100"}), HasSubstr("GPU-a2 on a is offline"));
}

}  // namespace
}  // namespace xoe::pool::testing
