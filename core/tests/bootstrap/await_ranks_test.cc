#include "core/bootstrap/await_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "core/bootstrap/store_client.h"
#include "core/bootstrap/store_service.h"

namespace xoe::bootstrap {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

TEST(AwaitRanks, GivesTheirValues) {
  const auto store = make_memory_store();
  ASSERT_TRUE(store->set("k/0", "a"));
  const std::jthread late([&] {
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(store->set("k/1", "b"));
  });
  EXPECT_THAT(await_ranks(*store, {.keys = {"k/0", "k/1"}, .ranks = {0, 1}}, 20s).value(), ElementsAre("a", "b"));
}

TEST(AwaitRanks, NamesTheMissing) {
  const auto store = make_memory_store();
  ASSERT_TRUE(store->set("k/0", "a"));
  const auto all = await_ranks(*store, {.keys = {"k/0", "k/1", "k/2"}, .ranks = {0, 6, 7}}, 300ms);
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code(), Code::kTimeout);
  EXPECT_EQ(all.error().message(), "ranks 6, 7 did not appear within 300 ms: did they start, and call init()?");
}

// Long before the time is over.
TEST(AwaitRanks, NamesARankThatEndedInstead) {
  const auto store = make_memory_store();
  ASSERT_TRUE(store->set("k/0", "a"));
  ASSERT_TRUE(store->set(kEndedRanksKey, "11 exited with code 0\n2 exited with code 0\n"));
  const auto all = await_ranks(*store, {.keys = {"k/0", "k/1", "k/2"}, .ranks = {0, 1, 2}}, 1h);
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code(), Code::kPeerLost);
  EXPECT_EQ(all.error().message(), "rank 2 exited with code 0, before it joined the others with init()");
  EXPECT_EQ(ended_line(*store, 1), "");
}

TEST(AwaitRanks, TheLaunchersListGrows) {
  const std::string text = "unix:@xoe-await-" + std::to_string(::getpid());
  auto service = StoreService::listen(SocketAddress::parse(text).value(), "s");
  ASSERT_TRUE(service);
  (*service)->note_ended(3, "exited with code 0");
  (*service)->note_ended(1, "exited with code 0");
  const auto server = StoreServer::start(std::move(*service)).value();
  const auto store = connect_store(SocketAddress::parse(text).value(), "s", /*wait=*/false, 10s).value();
  EXPECT_EQ(ended_line(*store, 1), "1 exited with code 0");
  EXPECT_EQ(ended_line(*store, 3), "3 exited with code 0");
  EXPECT_EQ(ended_line(*store, 0), "");
}

}  // namespace
}  // namespace xoe::bootstrap
