// Versions of the world that begin while ranks form the last one: a restarted rank, or another, has died again.
#include <gtest/gtest.h>

#include <poll.h>

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "core/base/random_token.h"
#include "core/base/world_changes.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/store_service.h"
#include "core/comm/init.h"

namespace xoe::testing {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// A launcher's store that takes its turns when the test says so.
class WorldVersions : public ::testing::Test {
 protected:
  static constexpr auto kLimit = 120s;

  // Ranks that still wait fail when their store ends, and their threads with them.
  void TearDown() override { service_.reset(); }

  void serve() {
    address_ = "unix:@xoe-test-" + random_token().value();
    const auto address = bootstrap::SocketAddress::parse(address_).value();
    service_ = bootstrap::StoreService::listen(address, "secret").value();
  }

  // Waits until the store has something to do, and lets it do that once.
  void take_turn() {
    pollfd entry{.fd = service_->fd(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, 100);
    service_->serve();
  }

  struct Rank {
    std::atomic<bool> ended = false;
    std::optional<Result<Joined>> joined = {};
    std::jthread thread = {};  // the last: it is joined first
  };

  void start(Rank& rank, int number, int size, const OnJoined& on_joined = {}) {
    rank.thread = std::jthread([&rank, number, size, on_joined, address = address_] {
      const std::string at = std::to_string(number), of = std::to_string(size);
      const Env env(std::map<std::string, std::string, std::less<>>{{"XOE_RANK", at},
                                                                    {"XOE_SIZE", of},
                                                                    {"XOE_LOCAL_RANK", at},
                                                                    {"XOE_LOCAL_SIZE", of},
                                                                    {"XOE_JOB", "test"},
                                                                    {"XOE_STORE", address},
                                                                    {"XOE_SECRET", "secret"},
                                                                    {"XOE_RESTARTS", "9"}});
      rank.joined.emplace(join(env, {}, {}, on_joined));
      rank.ended = true;
    });
  }

  // Whether both ranks have left init() in time.
  bool serve_until_ended(const Rank& first, const Rank& second) {
    const auto limit = Clock::now() + kLimit;
    while ((!first.ended || !second.ended) && Clock::now() < limit) take_turn();
    return first.ended && second.ended;
  }

  std::string address_;
  std::unique_ptr<bootstrap::StoreService> service_;
};

// Before, between and after all the requests that a rank makes while it waits for another one, which is being
// restarted.
TEST_F(WorldVersions, ARankFollowsWhereverItIsWhenTheNextOneBegins) {
  constexpr int kTurns = 24;  // more than a rank needs until it repeats itself
  for (int turns = 0; turns < kTurns; ++turns) {
    const auto before = world_changes().count.load();
    serve();
    service_->begin_world(0);
    service_->begin_world(1);
    Rank survivor, restarted;
    start(survivor, 0, 2);
    for (int turn = 0; turn < turns; ++turn) take_turn();
    service_->begin_world(2);
    start(restarted, 1, 2);
    const bool ended = serve_until_ended(survivor, restarted);
    if (!ended) service_.reset();
    ASSERT_TRUE(ended) << "a rank waits for a version that has passed, after " << turns << " turns";
    for (const Rank* const rank : {&survivor, &restarted}) {
      ASSERT_TRUE(*rank->joined) << rank->joined->error().to_string() << ", after " << turns << " turns";
      EXPECT_EQ((*rank->joined)->version, 2) << turns << " turns";
    }
    EXPECT_EQ(world_changes().count.load(), before + 2) << "one for each rank";
  }
}

// As an engine does whose first operation meets the death of a rank.
TEST_F(WorldVersions, WhatIsBuiltOnAWorldThatBreaksIsBuiltOnTheNextOne) {
  serve();
  service_->begin_world(0);
  std::atomic<int> failed = 0, built = 0;
  const OnJoined on_joined = [&](Joined& joined) -> Status {
    if (joined.version == 0) {
      ++failed;
      return failure(Code::kPeerLost, "rank 2 ended");
    }
    ++built;
    return {};
  };
  Rank first, second;
  start(first, 0, 2, on_joined);
  start(second, 1, 2, on_joined);
  for (const auto limit = Clock::now() + kLimit; failed < 2 && Clock::now() < limit;) take_turn();
  EXPECT_EQ(failed, 2);
  service_->begin_world(1);
  const bool ended = serve_until_ended(first, second);
  if (!ended) service_.reset();
  ASSERT_TRUE(ended);
  EXPECT_EQ(built, 2);
  for (const Rank* const rank : {&first, &second}) {
    ASSERT_TRUE(*rank->joined) << rank->joined->error().to_string();
    EXPECT_EQ((*rank->joined)->version, 1);
  }
}

TEST_F(WorldVersions, WhereNoneFollowsTheFailureIsReported) {
  Env alone;
  int calls = 0;
  const auto joined = join(alone, {}, {}, [&](Joined&) -> Status {
    ++calls;
    return failure(Code::kPeerLost, "rank 2 ended");
  });
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().message(), "rank 2 ended");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace xoe::testing
