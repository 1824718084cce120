#include "core/bootstrap/store.h"
#include "core/base/random_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "core/base/error.h"
#include "core/bootstrap/own_keys.h"
#include "core/bootstrap/store_protocol.h"

namespace xoe::bootstrap {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::string unique_job() { return random_token().value(); }

LaunchInfo rank_of(const std::string& job, int rank, int size, std::string secret = "s") {
  LaunchInfo info;
  info.topology = {
      .rank = rank, .size = size, .local_rank = rank, .local_size = size, .cross_rank = 0, .cross_size = 1};
  info.launcher = "test";
  info.job = job;
  info.secret = std::move(secret);
  return info;
}

class Stores : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!GetParam()) {
      store_ = make_memory_store();
      return;
    }
    server_ = serve_store("", "s").value();
    LaunchInfo info = rank_of("job", 0, 1);
    info.store = server_->address();
    store_ = open_store(info, 5s).value();
  }
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<Store> store_;
};

TEST_P(Stores, GivesWhatWasSet) {
  const std::string binary("a\0\n\xff", 4);
  ASSERT_TRUE(store_->set("k", binary));
  ASSERT_TRUE(store_->set("empty", ""));
  EXPECT_EQ(store_->get("k", 1s).value(), binary);
  EXPECT_EQ(store_->get("empty", 1s).value(), "");
}

TEST_P(Stores, AKeyIsSetOnce) {
  ASSERT_TRUE(store_->set("k", "v"));
  EXPECT_TRUE(store_->set("k", "v"));
  const Status again = store_->set("k", "other");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(again.error().message(), HasSubstr("k"));
  EXPECT_EQ(store_->get("k", 1s).value(), "v");
}

TEST_P(Stores, AKeyThatWasRemovedMayBeSetAgain) {
  std::vector<std::string> keys;
  for (int i = 0; i < 200; ++i) keys.push_back("k" + std::to_string(i));
  for (const std::string& key : keys) ASSERT_TRUE(store_->set(key, "v"));
  ASSERT_TRUE(store_->remove(keys));
  ASSERT_TRUE(store_->remove(keys)) << "keys that are not set are passed over";
  EXPECT_EQ(store_->get("k7", 10ms).error().code(), Code::kTimeout);
  ASSERT_TRUE(store_->set("k7", "w"));
  EXPECT_EQ(store_->get("k7", 1s).value(), "w");
}

TEST_P(Stores, WaitsForAKey) {
  std::jthread setter([&] {
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(store_->set("late", "v"));
  });
  EXPECT_EQ(store_->get("late", 10s).value(), "v");
}

TEST_P(Stores, ATimeoutNamesTheKey) {
  const auto value = store_->get("never", 30ms);
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code(), Code::kTimeout);
  EXPECT_THAT(value.error().message(), HasSubstr("never"));
  EXPECT_THAT(value.error().message(), HasSubstr("30 ms"));
  // The store stays usable, and the late answer is dropped.
  ASSERT_TRUE(store_->set("never", "late"));
  ASSERT_TRUE(store_->set("next", "n"));
  EXPECT_EQ(store_->get("next", 1s).value(), "n");
}

TEST_P(Stores, GivesManyAtOnceInOrder) {
  std::vector<std::string> keys;
  for (int i = 0; i < 200; ++i) keys.push_back("key" + std::to_string(i));
  std::jthread setter([&] {
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) EXPECT_TRUE(store_->set(*key, *key + "!"));
  });
  const auto values = store_->get_all(keys, 10s).value();
  ASSERT_EQ(values.size(), keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(values[i], keys[i] + "!");
  const auto missing = store_->get_all(std::vector<std::string>{"key0", "absent"}, 20ms);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message(), HasSubstr("absent"));
}

TEST_P(Stores, ServesManyThreads) {
  std::vector<std::jthread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 16; ++i)
    threads.emplace_back([&, i] {
      const std::string mine = std::to_string(i);
      EXPECT_TRUE(store_->set(mine, mine));
      // In a ring, so that waits cross.
      const std::string next = std::to_string((i + 1) % 16);
      if (store_->get(next, 10s).value() == next) ++right;
    });
  threads.clear();
  EXPECT_EQ(right, 16);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Stores, testing::Bool(),
                         [](const auto& one) { return std::string(one.param ? "Socket" : "Memory"); });

TEST(Store, Rank0ServesWithoutALauncher) {
  const std::string job = unique_job();
  std::vector<std::jthread> ranks;
  std::atomic<int> joined = 0;
  for (int rank = 2; rank >= 0; --rank) {
    ranks.emplace_back([&, rank] {
      auto store = open_store(rank_of(job, rank, 3), 10s).value();
      ASSERT_TRUE(store->set(std::to_string(rank), "here"));
      for (int peer = 0; peer < 3; ++peer) ASSERT_EQ(store->get(std::to_string(peer), 10s).value(), "here");
      ++joined;
      while (joined < 3) std::this_thread::yield();  // rank 0's store lives until all have read
    });
    std::this_thread::sleep_for(10ms);  // rank 0 comes last
  }
  ranks.clear();
  EXPECT_EQ(joined, 3);
}

TEST(Store, JobsDoNotMeet) {
  const std::string one = unique_job();
  const std::string two = unique_job();
  auto first = open_store(rank_of(one, 0, 2), 5s).value();
  auto second = open_store(rank_of(two, 0, 2), 5s).value();
  ASSERT_TRUE(first->set("k", "1"));
  ASSERT_TRUE(second->set("k", "2"));
  EXPECT_EQ(open_store(rank_of(one, 1, 2), 5s).value()->get("k", 5s).value(), "1");
  EXPECT_EQ(open_store(rank_of(two, 1, 2), 5s).value()->get("k", 5s).value(), "2");
}

TEST(Store, WithoutRank0TheOthersTimeOut) {
  const auto store = open_store(rank_of(unique_job(), 1, 2), 50ms);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), Code::kTimeout);
  EXPECT_THAT(store.error().message(), HasSubstr("rank 0"));
}

TEST(Store, TheServersEndIsPeerLost) {
  const std::string job = unique_job();
  auto server = open_store(rank_of(job, 0, 2), 5s).value();
  auto store = open_store(rank_of(job, 1, 2), 5s).value();
  std::jthread ender([&] {
    std::this_thread::sleep_for(30ms);
    server.reset();
  });
  const auto waiting = store->get("never", 10s);
  ASSERT_FALSE(waiting);
  EXPECT_EQ(waiting.error().code(), Code::kPeerLost);
  ender.join();
  const Status later = store->set("k", "v");
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().code(), Code::kPeerLost);
}

TEST(Store, AKilledServerIsPeerLost) {
  const std::string job = unique_job();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t server = ::fork();
  if (server == 0) {
    const auto store = open_store(rank_of(job, 0, 2), 5s);
    [[maybe_unused]] const auto told = ::write(ready[1], store ? "y" : "n", 1);
    ::pause();
    ::_exit(0);
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  auto store = open_store(rank_of(job, 1, 2), 5s).value();
  std::jthread killer([&] {
    std::this_thread::sleep_for(30ms);
    ::kill(server, SIGKILL);
  });
  const auto waiting = store->get("never", 10s);
  ASSERT_FALSE(waiting);
  EXPECT_EQ(waiting.error().code(), Code::kPeerLost);
  ::waitpid(server, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(Store, AnUnusableAddressIsRefused) {
  LaunchInfo info = rank_of("j", 0, 2);
  info.store = "tcp://host:1";
  const auto store = open_store(info, 1s);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(store.error().message(), HasSubstr("XOE_STORE"));
  info.store = "unix:@" + unique_job();
  const auto unserved = open_store(info, 1s);
  ASSERT_FALSE(unserved);
  EXPECT_EQ(unserved.error().code(), Code::kPeerLost);
}

TEST(Store, ANameIsServedOnce) {
  const std::string name = "unix:@xoe-test-" + unique_job();
  const auto first = serve_store(name, "").value();
  EXPECT_EQ(first->address(), name);
  const auto second = serve_store(name, "");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kUnavailable);
}

// The name that follows from what other users see of a job.
std::string guessed_name(const std::string& job) {
  std::array<std::uint64_t, 2> sums{0xcbf29ce484222325u, 0x84222325cbf29ce4u};
  for (const char c : job)
    for (auto& sum : sums) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return fmt::format("unix:@xoe-{}-test-{:016x}{:016x}-0", ::geteuid(), sums[0], sums[1]);
}

TEST(Store, AUserWhoKnowsTheJobDoesNotTakeItsPlace) {
  const std::string job = unique_job();
  const auto taken = serve_store(guessed_name(job), "of another user").value();
  std::unique_ptr<Store> served;
  std::jthread rank_0([&] {
    if (auto made = open_store(rank_of(job, 0, 2), 2s)) served = std::move(*made);
  });
  const auto joined = open_store(rank_of(job, 1, 2), 2s);
  rank_0.join();
  ASSERT_TRUE(joined) << joined.error().message();
  ASSERT_NE(served, nullptr);
  ASSERT_TRUE(served->set("k", "v"));
  EXPECT_EQ((*joined)->get("k", 1s).value(), "v");
}

// One rank's keys of several groups: those of a group that has met go with the next key that is set.
TEST(OwnKeys, RemovesWhatAllHaveRead) {
  OwnKeys keys(make_memory_store());
  const auto there = [&](const char* key) { return keys.get(key, 0ms).has_value(); };
  for (const char* key : {"a/1", "a/2", "b/1"}) ASSERT_TRUE(keys.set(key, "v"));
  keys.forget("a/");
  EXPECT_TRUE(there("a/1")) << "the store is not asked";
  ASSERT_TRUE(keys.set("b/2", "v"));
  EXPECT_FALSE(there("a/1"));
  EXPECT_FALSE(there("a/2"));
  EXPECT_TRUE(there("b/1"));
  keys.remove_all();
  EXPECT_FALSE(there("b/1"));
  EXPECT_FALSE(there("b/2"));
  ASSERT_TRUE(keys.set("c/1", "v"));
  EXPECT_TRUE(there("c/1"));
}

}  // namespace
}  // namespace xoe::bootstrap
