// A simulated week of a whole pool, its database included: are starts as they were said, and do teams get their quotas?
#include <random>
#include <set>

#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using std::chrono::hours;

constexpr Time kMonday = Time(hours(24 * 365 * 50));
constexpr Span kWeek = hours(7 * 24);
constexpr int kUsers = 40;

// 40 users share three hosts of 8 GPUs. A clock of its own leaps from event to event.
class Week {
 public:
  Week(const std::map<std::string, int>& quotas, unsigned seed)
      : random_(seed),
        pool_(open_pool(scratch_.file("pool.db"), {.expiry_warning = Span(0),
                                                   .host_timeout = 2 * kWeek,
                                                   .max_waiting = 1000,
                                                   .waiting_timeout = 2 * kWeek})) {
    const User admin{.name = "root", .role = Role::kAdmin};
    std::vector<std::string> names;
    turn([&] {
      for (const auto& [name, quota] : quotas) {
        EXPECT_TRUE(pool_.set_team(admin, {.name = name, .quota = quota}));
        names.push_back(name);
      }
      for (int i = 0; i < kUsers; ++i) {
        const std::string team = names.empty() ? "" : names[static_cast<std::size_t>(i) % names.size()];
        users_.push_back({.name = fmt::format("user{:02}", i), .team = team, .token_hash = fmt::format("h{}", i)});
        EXPECT_TRUE(pool_.set_user(admin, users_.back()));
      }
      for (const char* host : {"a", "b", "c"}) EXPECT_TRUE(pool_.report(report_of(host, 8)));
    });
  }

  int pick(int count) { return std::uniform_int_distribution(0, count - 1)(random_); }
  Time now() const { return now_; }
  Pool& pool() { return pool_; }
  const std::vector<User>& users() const { return users_; }

  void ask(const User& user, const LeaseRequest& request) {
    std::int64_t id = 0;
    turn([&] { id = pool_.acquire(user, request, token_number(++tokens_)).value(); });
    const Lease lease = pool_.lease(id).value();
    if (lease.is_waiting()) said_[id] = lease.starts.value();
    waiting_[user.name] += lease.is_waiting() ? 1 : 0;
  }

  int waiting_of(const User& user) { return waiting_[user.name]; }

  void end_one_early() {
    std::vector<const Lease*> open;
    for (const auto& [id, lease] : pool_.state().leases)
      if (lease.is_open()) open.push_back(&lease);
    if (open.empty()) return;
    const auto id = open[static_cast<std::size_t>(pick(static_cast<int>(open.size())))]->id;
    turn([&] { EXPECT_TRUE(pool_.revoke({.name = "root", .role = Role::kAdmin}, id, "done early")); });
  }

  // One event of the pool, or none and the given time; whether there was one.
  bool advance(Time until) {
    const auto next = pool_.next_event();
    const bool any = next && *next <= until;
    now_ = any ? std::max(*next, now_) : until;
    if (any) turn([] {});
    return any;
  }

  // GPU-hours held, by team.
  std::map<std::string, double> held() {
    std::map<std::string, double> sums;
    const auto rows = pool_.store().usage(kMonday, kMonday + kWeek, now_);
    for (const UsageRow& row : rows.value())
      sums[row.team] += std::chrono::duration<double, std::ratio<3600>>(row.held).count();
    return sums;
  }

  int started = 0;
  int waited = 0;
  int later = 0;    // than it was said
  int earlier = 0;  // than it was said

 private:
  // And what the agents tell of GPUs that were given back.
  void turn(const std::function<void()>& commands) {
    run_turn(commands);
    if (const auto reports = awaited_reports(pool_.state()); !reports.empty())
      run_turn([&] {
        for (const HostReport& report : reports) EXPECT_TRUE(pool_.report(report));
      });
  }

  void run_turn(const std::function<void()>& commands) {
    ASSERT_TRUE(pool_.begin(now_));
    commands();
    const auto done = pool_.finish();
    ASSERT_TRUE(done) << done.error().message();
    for (const auto& [id, lease] : pool_.state().leases) {
      if (!lease.is_open() || !started_.insert(id).second) continue;
      ++started;
      const auto said = said_.find(id);
      if (said == said_.end()) continue;
      --waiting_[lease.user];
      ++waited;
      later += lease.begins > said->second ? 1 : 0;
      earlier += lease.begins < said->second ? 1 : 0;
    }
  }

  std::mt19937 random_;
  Scratch scratch_{memory_folder()};
  Pool pool_;
  Time now_ = kMonday;
  std::vector<User> users_;
  std::map<std::int64_t, Time> said_;
  std::map<std::string, int> waiting_;
  std::set<std::int64_t> started_;
  int tokens_ = 0;
};

class Starts : public ::testing::TestWithParam<bool> {};

TEST_P(Starts, AreAsSaid) {
  const bool early_ends = GetParam();
  Week week({}, 7);
  for (Span minute{0}; minute < kWeek; minute += minutes(1 + week.pick(12))) {
    while (week.advance(kMonday + minute)) continue;
    week.ask(week.users()[static_cast<std::size_t>(week.pick(kUsers))],
             {.gpus = 1 + week.pick(4), .duration = minutes(10 + week.pick(100)), .wait = true});
    if (early_ends && week.pick(8) == 0) week.end_one_early();
  }
  EXPECT_GT(week.started, 1400);
  EXPECT_GT(week.waited, early_ends ? 50 : 100);
  EXPECT_EQ(week.later, 0);
  if (!early_ends) {
    EXPECT_EQ(week.earlier, 0);
  }
}
INSTANTIATE_TEST_SUITE_P(EarlyEnds, Starts, ::testing::Bool());

// All users always want more than there is, so each team gets what its quota says.
TEST(Fairness, GpuHoursFollowTheQuotas) {
  if (XOE_SANITIZED) GTEST_SKIP() << "minutes of one thread; the plans of shorter times are looked at";
  const std::map<std::string, int> quotas = {{"audio", 12}, {"text", 4}, {"vision", 8}};
  Week week(quotas, 11);
  const auto fill = [&] {
    for (const User& user : week.users())
      while (week.waiting_of(user) < 2)
        week.ask(user, {.gpus = 1 + week.pick(4), .duration = minutes(10 + week.pick(100)), .wait = true});
  };
  fill();
  while (week.advance(kMonday + kWeek)) fill();
  const auto held = week.held();
  const double all = 24.0 * std::chrono::duration<double, std::ratio<3600>>(kWeek).count();
  double sum = 0;
  for (const auto& [team, hours_held] : held) sum += hours_held;
  for (const auto& [team, quota] : quotas) {
    const double due = sum * quota / 24;
    fmt::print("{}: {:.0f} of {:.0f} GPU-hours, {:+.1f} %\n", team, held.at(team), due,
               100 * (held.at(team) / due - 1));
    EXPECT_NEAR(held.at(team), due, 0.05 * due) << team;
  }
  EXPECT_EQ(week.later, 0);
  fmt::print("{} leases, {} waited, {} started later than said, {} earlier; {:.1f} % in use\n", week.started,
             week.waited, week.later, week.earlier, 100 * sum / all);
  EXPECT_GT(sum, 0.95 * all);
}

}  // namespace
}  // namespace xoe::pool::testing
