// Leases whose clients are gone: in the queue, and after a grant that they may not have learnt of.
#include <optional>
#include <random>

#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using ::testing::ElementsAre;

class Claims : public PoolTest {
 protected:
  Claims() : PoolTest({.waiting_timeout = minutes(2)}) {}

  // One of bob that waits, and then gets the GPUs that ann has released.
  std::int64_t granted_from_the_queue() {
    const auto first = acquire(ann_, {.gpus = 4}).value();
    const auto id = acquire(bob_, {.wait = true}).value();
    now_ += seconds(10);
    turn([&] { EXPECT_TRUE(pool_.release(ann_, first, {}, "done")); });
    EXPECT_TRUE(lease(id).is_open());
    return id;
  }
};

TEST_F(Claims, AGrantThatNoClientAsksForEnds) {
  const auto id = granted_from_the_queue();
  EXPECT_TRUE(lease(id).unclaimed);
  EXPECT_EQ(pool_.next_event(), now_ + seconds(30) + Span(1));  // the host's
  pass(minutes(2));
  EXPECT_TRUE(lease(id).is_open());
  pass(seconds(30));
  EXPECT_EQ(lease(id).why, "its client was silent for 2 min since it was granted");
  EXPECT_EQ(pool_.state().holder_of("GPU-a0"), nullptr);
}

TEST_F(Claims, AClientThatAsksKeepsIt) {
  const auto id = granted_from_the_queue();
  turn([&] {
    EXPECT_TRUE(pool_.claim(ann_, id));  // it is not hers
    EXPECT_TRUE(lease(id).unclaimed);
    EXPECT_TRUE(pool_.claim(bob_, id));
  });
  pass(minutes(30));
  EXPECT_TRUE(lease(id).is_open());
  EXPECT_THAT(events(id), ElementsAre("asked", "granted", "claimed"));
}

// Its reply was lost.
TEST_F(Claims, AskingAgainWithTheSameTokenOrRenewingClaims) {
  const auto id = granted_from_the_queue();
  turn([&] { EXPECT_EQ(pool_.acquire(bob_, {.wait = true}, token_number(tokens_)).value(), id); });
  EXPECT_FALSE(lease(id).unclaimed);
  turn([&] { EXPECT_TRUE(pool_.release(bob_, id, {}, "done")); });
  const auto another = granted_from_the_queue();
  turn([&] { EXPECT_TRUE(pool_.renew(bob_, another, {}, minutes(10))); });
  EXPECT_FALSE(lease(another).unclaimed);
}

TEST_F(Claims, AReservationAndAGrantAtOnceNeedNone) {
  const auto at_once = acquire(ann_, {.wait = true}).value();
  const auto reserved = acquire(bob_, {.at = now_ + minutes(10)}).value();
  pass(minutes(30));
  EXPECT_TRUE(lease(at_once).is_open());
  EXPECT_TRUE(lease(reserved).is_open());
  EXPECT_FALSE(lease(reserved).unclaimed);
}

TEST_F(Claims, AServerThatWasDownGivesThemTheirTimeAgain) {
  const auto id = granted_from_the_queue();
  pool_ = after_restart();
  now_ += minutes(60);
  turn();
  EXPECT_TRUE(lease(id).unclaimed);
  pass(minutes(3));
  EXPECT_EQ(lease(id).state, LeaseState::kEnded);
}

// --- any order of all that happens, against a model of what each client knows ---

constexpr Span kTimeout = minutes(2);

class Model {
 public:
  explicit Model(unsigned seed) : random_(seed) {
    reopen();
    turn([&] {
      EXPECT_TRUE(pool_->set_team(admin_, {.name = "x", .quota = 4}));
      EXPECT_TRUE(pool_->set_user(admin_, ann_));
    });
  }

  // Returns how many leases ended because their clients were gone, and how many were claimed.
  std::pair<int, int> run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      now_ += seconds(1 + pick(40));
      if (pick(30) == 0) reopen();
      turn([&] { act(); });
      check();
    }
    return {silent_, claimed_};
  }

 private:
  struct Client {
    std::string token = {};
    bool is_there = true;
    bool waited = false;
    bool claimed = false;
    Time heard = {};  // of it, or of the grant, or of the server's begin: its time runs from then on
    LeaseState state = LeaseState::kWaiting;
  };

  int pick(int count) { return std::uniform_int_distribution(0, count - 1)(random_); }

  void reopen() {
    pool_.reset();
    pool_.emplace(
        open_pool(scratch_.file("pool.db"), {.host_timeout = std::chrono::hours(1), .waiting_timeout = kTimeout}));
    for (auto& [id, client] : clients_) client.heard = now_;
  }

  void turn(const std::function<void()>& commands) {
    ASSERT_TRUE(pool_->begin(now_));
    ASSERT_TRUE(pool_->report(report_of("a", 4)));
    commands();
    ASSERT_TRUE(pool_->finish());
  }

  void act() {
    if (pick(3) == 0) {
      const std::string token = token_number(++tokens_);
      const auto id = pool_->acquire(ann_, {.gpus = 1 + pick(3), .wait = true}, token);
      ASSERT_TRUE(id);
      clients_[*id] = {.token = token, .heard = now_};
    }
    for (auto& [id, client] : clients_) {
      if (!client.is_there || client.state == LeaseState::kEnded || pool_->lease(id)->state == LeaseState::kEnded)
        continue;
      const int what = pick(40);
      if (what == 0) client.is_there = false;
      if (what > 20) ask(id, client);
      if (what > 34 && pool_->lease(id)->is_open()) {
        EXPECT_TRUE(pool_->release(ann_, id, client.token, "done"));
      }
    }
  }

  void ask(std::int64_t id, Client& client) {
    if (pool_->lease(id)->is_waiting()) {
      pool_->touch(id, now_);
      client.heard = now_;
      return;
    }
    if (pick(2) == 0) {
      EXPECT_EQ(pool_->acquire(ann_, {.wait = true}, client.token).value(), id);
    } else {
      EXPECT_TRUE(pool_->claim(ann_, id));
    }
    claimed_ += client.waited && !client.claimed ? 1 : 0;
    client.claimed = true;
  }

  void check() {
    for (auto& [id, client] : clients_) {
      if (client.state == LeaseState::kEnded) continue;
      const Lease lease = pool_->lease(id).value();
      const LeaseState before = std::exchange(client.state, lease.state);
      const bool silent = lease.state == LeaseState::kEnded && lease.why.find("silent") != std::string::npos;
      const bool was_bound = before == LeaseState::kWaiting || (client.waited && !client.claimed);
      if (silent) {
        ++silent_;
        EXPECT_TRUE(was_bound && now_ - client.heard > kTimeout) << "lease " << id << " ended too early: " << lease.why;
      } else if (lease.state != LeaseState::kEnded && was_bound && lease.asked < now_) {
        EXPECT_LE(now_ - client.heard, kTimeout) << "lease " << id << " should have ended";
      }
      if (before == LeaseState::kWaiting && lease.is_open() && lease.asked < now_) {
        client.waited = true;
        client.heard = now_;
      }
      EXPECT_EQ(lease.is_open() && lease.unclaimed, lease.is_open() && client.waited && !client.claimed) << id;
    }
  }

  std::mt19937 random_;
  Scratch scratch_{memory_folder()};
  std::optional<Pool> pool_;
  Time now_ = Time(std::chrono::hours(24 * 365 * 50));
  User admin_{.name = "root", .role = Role::kAdmin};
  User ann_{.name = "ann", .team = "x", .token_hash = "a"};
  std::map<std::int64_t, Client> clients_;
  int tokens_ = 0;
  int silent_ = 0;
  int claimed_ = 0;
};

TEST(Claim, InAnyOrderOfWhatHappens) {
  int silent = 0;
  int claimed = 0;
  constexpr int kSeeds = XOE_SANITIZED ? 2 : 6;
  for (unsigned seed = 0; seed < kSeeds && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const auto [ended, kept] = Model(seed).run(300);
    silent += ended;
    claimed += kept;
  }
  EXPECT_GT(silent, 4 * kSeeds);
  EXPECT_GT(claimed, 4 * kSeeds);
}

}  // namespace
}  // namespace xoe::pool::testing
