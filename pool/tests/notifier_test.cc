// Who is told of what, with a sender of the test.
#include <sqlite3.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "core/base/error.h"
#include "pool/hooks/notifier.h"
#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class Notices : public PoolTest {
 protected:
  void start(NotifierOptions options = {.tries = 3, .pause = 1ms}) {
    queue_ = std::make_unique<CommandQueue>(std::move(pool_), [this] { return now_; });
    notifier_ = std::make_unique<Notifier>(
        *queue_,
        [this](const Notice& notice) -> Status {
          ++begun_;
          const std::lock_guard lock(mutex_);
          tried_.push_back(sentence_of(notice));
          return fails_-- > 0 ? Status(failure(Code::kUnavailable, "connection refused")) : Status();
        },
        [this](const std::string& what) {
          const std::lock_guard lock(mutex_);
          said_.push_back(what);
        },
        counters_, options);
  }

  std::int64_t acquire_now(const User& user, const std::string& token) {
    std::int64_t id = 0;
    EXPECT_TRUE(queue_->change([&](Pool& pool) { id = pool.acquire(user, {}, token).value(); }, {}));
    return id;
  }

  // Until so many were sent or lost.
  void await(std::uint64_t count) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (counters_.sent + counters_.lost < count && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(1ms);
    const std::lock_guard lock(mutex_);
    EXPECT_GE(counters_.sent + counters_.lost, count);
  }

  // Beside the pool, as another program.
  void run_sql(const char* text) {
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open_v2(path().c_str(), &database, SQLITE_OPEN_READWRITE, nullptr), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(database, text, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(database);
    sqlite3_close(database);
  }

  std::atomic<int> begun_ = 0;
  std::mutex mutex_;
  std::vector<std::string> tried_;
  std::vector<std::string> said_;
  int fails_ = 0;
  NoticeCounters counters_;
  std::unique_ptr<CommandQueue> queue_;
  std::unique_ptr<Notifier> notifier_;
};

TEST_F(Notices, HoldersAreToldWhatOthersDid) {
  start();
  const auto id = acquire_now(ann_, token_number(1));
  const auto own = acquire_now(ann_, token_number(2));
  ASSERT_TRUE(queue_->change([&](Pool& pool) { EXPECT_TRUE(pool.release(ann_, own, token_number(2), "done")); }, {}));
  ASSERT_TRUE(queue_->change([&](Pool& pool) { EXPECT_TRUE(pool.revoke(admin_, id, "maintenance")); }, {}));
  await(3);
  EXPECT_THAT(tried_, ElementsAre(HasSubstr("lease 1: 1 GPU on a until "), HasSubstr("lease 2: 1 GPU on a until "),
                                  "lease 1 has ended: maintenance"));
  EXPECT_EQ(counters_.sent, 3);
}

TEST_F(Notices, ItIsTriedAgainAndThenGivenUp) {
  fails_ = 2 + 3;
  start();
  acquire_now(ann_, token_number(1));  // the third try succeeds
  acquire_now(ann_, token_number(2));  // three fail
  acquire_now(ann_, token_number(3));
  await(3);
  EXPECT_EQ(counters_.sent, 2);
  EXPECT_EQ(counters_.lost, 1);
  EXPECT_EQ(tried_.size(), 7U);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("connection refused (given up after 3 tries)")));
}

TEST_F(Notices, WhatIsFarBehindIsGivenUp) {
  start({.tries = 1, .pause = 1ms, .behind = 10});
  ASSERT_TRUE(queue_->change(
      [&](Pool& pool) {
        for (int i = 0; i < 40; ++i) EXPECT_TRUE(pool.set_team(admin_, {.name = "x", .quota = i % 4}));
      },
      {}));
  await(30);
  acquire_now(ann_, token_number(1));
  await(31);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("too old to tell of")));
  EXPECT_EQ(counters_.sent, 1);
}

// What happened before the start is not told, also where the log could not be read then.
TEST_F(Notices, AtAStartWithoutTheLogNothingOldIsTold) {
  ASSERT_TRUE(pool_.revoke(admin_, pool_.acquire(ann_, {}, token_number(1)).value(), "maintenance"));
  run_sql("ALTER TABLE event RENAME TO away");
  start();
  run_sql("ALTER TABLE away RENAME TO event");
  for (int i = 2; begun_ == 0; ++i) {  // the first ones may come before the log is looked at
    const auto id = acquire_now(ann_, token_number(i));
    ASSERT_TRUE(queue_->change([&](Pool& pool) { EXPECT_TRUE(pool.revoke(admin_, id, "maintenance")); }, {}));
    std::this_thread::sleep_for(10ms);
  }
  await(1);
  const std::lock_guard lock(mutex_);
  EXPECT_THAT(tried_, Each(Not(HasSubstr("lease 1:"))));
  EXPECT_THAT(tried_, Each(Not(HasSubstr("lease 1 "))));
}

TEST_F(Notices, ALeaseThatCannotBeReadIsTold) {
  start();
  {
    const std::lock_guard sending_waits(mutex_);
    const auto id = acquire_now(ann_, token_number(1));
    while (begun_ == 0) std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(queue_->change([&](Pool& pool) { EXPECT_TRUE(pool.revoke(admin_, id, "maintenance")); }, {}));
    run_sql("UPDATE lease SET progress = '?'");
  }
  await(2);
  EXPECT_EQ(counters_.sent, 1);
  EXPECT_EQ(counters_.lost, 1);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("lease 1 cannot be read")));
}

}  // namespace
}  // namespace xoe::pool::testing
