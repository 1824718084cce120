// The audit log is complete: whatever a turn changed, a line of that turn tells who did it and why.
#include <random>
#include <set>

#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using std::chrono::hours;

// Of a lease, all that its holder or another could care about; the plan of one that waits follows from the others.
std::string facts_of(const Lease& lease) {
  if (lease.is_waiting()) return "waiting";
  const std::string way = lease.give_way ? fmt::format("{} {}", lease.give_way->for_lease,
                                                       lease.give_way->by ? to_number(*lease.give_way->by) : 0)
                                         : "-";
  return fmt::format("{} {} {} {} {} {} {}", name_of(lease.state), fmt::join(lease.gpus, ","),
                     to_number(lease.logged.expires), way, name_of(lease.idle_phase), lease.idle_exempt,
                     lease.expiry_warned);
}

struct Facts {
  std::map<std::int64_t, std::string> leases;
  std::map<std::string, std::string> others;  // by kind and name

  explicit Facts(const State& state) {
    for (const auto& [id, lease] : state.leases) leases[id] = facts_of(lease);
    for (const auto& [name, team] : state.teams)
      others["team " + name] = fmt::format("{} {}", team.quota, team.may_borrow);
    for (const auto& [name, user] : state.users)
      others["user " + name] = fmt::format("{} {} {} {} {} {}", user.team, name_of(user.role), user.token_hash,
                                           user.max_gpus, user.max_priority, user.idle_exempt);
    for (const auto& [name, host] : state.hosts)
      others["host " + name] = fmt::format("{} {}", host.online, host.without);
    for (const auto& [uuid, gpu] : state.gpus)
      others["gpu " + uuid] = fmt::format("{} {} {} {}", gpu.host, gpu.name, gpu.memory, fmt::join(gpu.nvlinks, ","));
  }
};

template <class Map>
std::set<typename Map::key_type> changed(const Map& before, const Map& after) {
  std::set<typename Map::key_type> keys;
  for (const auto& [key, value] : before)
    if (!after.contains(key) || after.at(key) != value) keys.insert(key);
  for (const auto& [key, value] : after)
    if (!before.contains(key)) keys.insert(key);
  return keys;
}

class AuditedPool {
 public:
  explicit AuditedPool(unsigned seed)
      : random_(seed),
        pool_(open_pool(scratch_.file("pool.db"),
                        {.min_runtime = minutes(5),
                         .give_way = GiveWayPolicy::kReclaim,
                         .waiting_timeout = minutes(30),
                         .idle = {.on = true, .window = minutes(20), .no_process_window = minutes(10)}})) {
    turn([&] {
      EXPECT_TRUE(pool_.set_team(admin_, {.name = "x", .quota = 3}));
      for (int i = 0; i < 4; ++i) EXPECT_TRUE(pool_.set_user(admin_, user(i)));
      report();
    });
  }

  // Renewals whose line was not there yet.
  int late() const { return late_; }

  // Returns how many changes were looked up in the log.
  int run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      now_ += seconds(10 + pick(100));
      turn([&] {
        report();
        for (int i = pick(3); i > 0; --i) command();
      });
    }
    return checked_;
  }

 private:
  int pick(int count) { return std::uniform_int_distribution(0, count - 1)(random_); }
  User user(int i) {
    return {.name = fmt::format("user{}", i),
            .team = i % 2 == 0 ? "x" : "",
            .token_hash = fmt::format("hash{}", i),
            .max_gpus = pick(3) * 2,
            .max_priority = i};
  }

  void report() {
    if (pick(4) != 0) pool_report("a");
    if (pick(60) == 0) silent_until_ = now_ + minutes(3);
    if (now_ > silent_until_) pool_report("b");
  }

  void pool_report(const std::string& host) {
    HostReport report = report_of(host, 3);
    if (pick(50) == 0) report.gpus[0].memory = (1ULL << 30) * static_cast<std::uint64_t>(1 + pick(16));
    if (pick(50) == 0) report.without = "a test";
    for (GpuActivity& activity : report.activity)
      if (pick(3) == 0) activity = {.utilisation = pick(100), .processes = {{.pid = 7, .user = "user1"}}};
    EXPECT_TRUE(pool_.report(report));
  }

  std::int64_t some_lease() {
    const auto& leases = pool_.state().leases;
    if (leases.empty()) return 0;
    return std::next(leases.begin(), pick(static_cast<int>(leases.size())))->first;
  }

  // Some are refused; then they must change nothing.
  void command() {
    const User who = pool_.state().users.contains("user3") ? user(pick(4)) : user(pick(3));
    const std::int64_t id = some_lease();
    const auto ignore = [](const auto&) {};
    switch (pick(10)) {
      case 0:
      case 1:
      case 2: {
        const LeaseRequest request{.gpus = 1 + pick(2),
                                   .duration = minutes(5 + pick(120)),
                                   .priority = pick(2) == 0 ? 0 : pick(who.max_priority + 1),
                                   .at = pick(8) == 0 ? std::optional(now_ + minutes(pick(300))) : std::nullopt,
                                   .wait = pick(3) != 0};
        const auto made = pool_.acquire(who, request, token_number(++tokens_));
        if (made) tokens_of_[*made] = {who, token_number(tokens_)};
        break;
      }
      case 3:
        if (tokens_of_.contains(id))
          ignore(pool_.renew(tokens_of_[id].first, id, tokens_of_[id].second, minutes(1 + pick(200))));
        break;
      case 4:
        if (tokens_of_.contains(id)) ignore(pool_.release(tokens_of_[id].first, id, tokens_of_[id].second, "done"));
        break;
      case 5:
        ignore(pick(3) == 0 ? pool_.revoke(admin_, id, "asked to") : pool_.exempt(admin_, id, "a demonstration"));
        break;
      case 6: ignore(pool_.set_team(admin_, {.name = "x", .quota = 1 + pick(5), .may_borrow = pick(4) != 0})); break;
      case 7: ignore(pool_.set_user(admin_, user(pick(4)))); break;
      case 8: ignore(pool_.remove_user(admin_, "user3")); break;
      default:
        ignore(pool_.adopt(user(1), {.exact = {gpu_named("a", pick(3)).uuid}}, token_number(++tokens_)));
        if (id != 0) pool_.touch(id, now_);
    }
  }

  void turn(const std::function<void()>& commands) {
    const Facts before(pool_.state());
    ASSERT_TRUE(pool_.begin(now_));
    commands();
    const auto done = pool_.finish();
    ASSERT_TRUE(done) << done.error().message();
    const Facts after(pool_.state());
    std::set<std::int64_t> leases;
    std::set<std::string> subjects;
    const auto events = pool_.store().events(last_, 1000);
    for (const Event& event : events.value()) {
      ASSERT_EQ(event.number, ++last_);
      ASSERT_EQ(event.at, now_);
      ASSERT_FALSE(event.actor.empty());
      ASSERT_FALSE(event.kind.empty());
      if (event.lease != 0) leases.insert(event.lease);
      subjects.insert(event.subject);
    }
    for (const std::int64_t id : changed(before.leases, after.leases)) {
      ++checked_;
      ASSERT_TRUE(leases.contains(id)) << "no line tells of the change of lease " << id << " at event " << last_;
    }
    for (const auto& [id, lease] : pool_.state().leases) {
      if (const auto due = lease.renewal_due()) {
        ++late_;
        ASSERT_GT(*due, now_) << "no line tells of the renewal of lease " << id;
      }
    }
    for (const std::string& what : changed(before.others, after.others)) {
      ++checked_;
      ASSERT_TRUE(subjects.contains(what.substr(what.find(' ') + 1))) << "no line tells of the change of " << what;
    }
  }

  static constexpr Time kBegin = Time(hours(24 * 365 * 50));
  std::mt19937 random_;
  Scratch scratch_{memory_folder()};
  Pool pool_;
  Time now_ = kBegin;
  Time silent_until_ = {};
  User admin_{.name = "root", .role = Role::kAdmin};
  std::map<std::int64_t, std::pair<User, std::string>> tokens_of_;
  int tokens_ = 0;
  std::int64_t last_ = 0;
  int checked_ = 0;
  int late_ = 0;
};

TEST(AuditLog, TellsOfEveryChange) {
  int checked = 0;
  int late = 0;
  const unsigned seeds = XOE_SANITIZED ? 2 : 10;
  for (unsigned seed = 0; seed < seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    AuditedPool pool(seed);
    checked += pool.run(300);
    late += pool.late();
  }
  if (!XOE_SANITIZED) {
    EXPECT_GT(late, 0);
  }
  EXPECT_GT(checked, 200 * static_cast<int>(seeds));
}

}  // namespace
}  // namespace xoe::pool::testing
