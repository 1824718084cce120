// What ranks tell their launcher before they end.
#include "core/bootstrap/failing_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/base/random_token.h"
#include "core/bootstrap/launch_env.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/store.h"
#include "core/bootstrap/store_service.h"

namespace xoe::bootstrap {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(RanksNamed, AreThoseOfTheText) {
  EXPECT_THAT(ranks_named("rank 3 (pid 4410) ended without leaving the group"), ElementsAre(3));
  EXPECT_THAT(ranks_named("the connection to rank 12 broke: reset"), ElementsAre(12));
  EXPECT_THAT(ranks_named("host b (ranks 4, 5 and 7) is gone"), ElementsAre(4, 5, 7));
  EXPECT_THAT(ranks_named("rank 1 gave up while 'x' was under way: rank 2 ended; rank 1"), ElementsAre(1, 2));
  EXPECT_THAT(ranks_named("lost: one of rank 2 (host b), rank 0 (host a)"), ElementsAre(2, 0));
}

TEST(RanksNamed, AreNotTheNumbersOfOtherThings) {
  EXPECT_THAT(ranks_named("rank 1 failed: ValueError: expected rank 3 tensor"), ElementsAre(1));
  EXPECT_THAT(ranks_named(""), IsEmpty());
  EXPECT_THAT(ranks_named("rank"), IsEmpty());
  EXPECT_THAT(ranks_named("rank "), IsEmpty());
  EXPECT_THAT(ranks_named("frank 3; ranking 4; rank -1; rank: 5; rank 99999999999999999999"), IsEmpty());
  std::string many = "ranks 0";
  for (int i = 1; i < 1000; ++i) many += ", " + std::to_string(i);
  EXPECT_EQ(ranks_named(many).size(), 64u);
}

class LostPeersTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto address = SocketAddress::parse("unix:@xoe-test-" + random_token().value()).value();
    service_ = StoreService::listen(address, "right").value();
  }

  // Serves while `rank` does what it does.
  template <class Rank>
  void serve_while(Rank&& rank) {
    std::atomic<bool> done = false;
    const std::jthread thread([&] {
      rank();
      done = true;
    });
    for (pollfd entry{.fd = service_->fd(), .events = POLLIN, .revents = 0}; !done; ::poll(&entry, 1, 5))
      service_->serve();
  }

  Env rank_1() const {
    return Env({{"XOE_RANK", "1"},
                {"XOE_SIZE", "4"},
                {"XOE_LAUNCHER", "xoe"},
                {"XOE_JOB", "job"},
                {"XOE_STORE", service_->address()},
                {"XOE_SECRET", "right"}});
  }

  std::unique_ptr<StoreService> service_;
};

TEST_F(LostPeersTest, ReachTheLauncher) {
  serve_while([&] { announce_lost_peers(rank_1(), "ranks 2 and 3 have ended", 5); });
  const auto told = service_->take_lost_peers();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].rank, 1);
  EXPECT_EQ(told[0].pid, ::getpid());
  EXPECT_EQ(told[0].version, 5);
  EXPECT_THAT(told[0].lost, ElementsAre(2, 3));
  EXPECT_THAT(service_->take_lost_peers(), IsEmpty());
}

TEST_F(LostPeersTest, AreNotToldWithoutNamesOrALauncher) {
  serve_while([&] { announce_lost_peers(rank_1(), "the connection broke", 0); });
  serve_while([&] { announce_lost_peers(Env(), "rank 2 has ended", 0); });
  EXPECT_THAT(service_->take_lost_peers(), IsEmpty());
}

TEST_F(LostPeersTest, DoNotWaitForALauncherThatIsSilent) {
  const auto begin = std::chrono::steady_clock::now();
  announce_lost_peers(rank_1(), "rank 2 has ended", 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

TEST_F(LostPeersTest, OfWordsThatAreNoNumbersAreDropped) {
  serve_while([&] {
    const auto info = read_launch_info(rank_1()).value();
    const auto store = open_store(info, 20s).value();
    for (const auto& [key, value] : {std::pair("lost_peers/1", "7 0 x"), std::pair("lost_peers/x", "7 0 2"),
                                     std::pair("lost_peers/2", "7 0"), std::pair("lost_peers/3", "7 0 99999999999"),
                                     std::pair("lost_peers", "7 0 2"), std::pair("lost_peersx/4", "7 0 2")})
      EXPECT_TRUE(store->set(key, value));
    EXPECT_TRUE(store->set("lost_peers/4", "7 0 2"));
  });
  const auto told = service_->take_lost_peers();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].rank, 4);
}

}  // namespace
}  // namespace xoe::bootstrap
