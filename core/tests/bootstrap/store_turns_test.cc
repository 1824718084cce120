// Timeouts of the store: it drops a client for being slow only while it waits for that client's message, and a client
// that was dropped before it had authenticated retries.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "core/base/fd.h"
#include "core/base/random_token.h"
#include "core/bootstrap/mesh_handshake.h"
#include "core/bootstrap/proof.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/store.h"
#include "core/bootstrap/store_client.h"
#include "core/bootstrap/store_protocol.h"
#include "core/bootstrap/store_service.h"

namespace xoe::bootstrap {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// A store that serves when the test says so, and a client that says what the test wants.
class StoreTurns : public testing::Test {
 protected:
  void serve(StoreLimits limits) {
    address_ = SocketAddress::parse("unix:@xoe-test-" + random_token().value()).value();
    service_ = StoreService::listen(address_, "right", limits).value();
  }

  Fd connect() { return connect_to(address_, false, Clock::now() + 20s).value(); }

  static void send(const Fd& socket, std::string_view bytes) {
    ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  // Until there is nothing that it can do.
  void settle() {
    pollfd entry{.fd = service_->fd(), .events = POLLIN, .revents = 0};
    do service_->serve();
    while (::poll(&entry, 1, 0) > 0);
  }

  // Everything that can be answered now.
  std::vector<std::string> answers(const Fd& socket) {
    std::vector<std::string> values;
    FrameBuffer reader;
    for (bool more = true; more;) {
      settle();
      more = false;
      char bytes[4096];
      for (ssize_t count = 0; (count = ::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT)) > 0; more = true)
        reader.append({bytes, static_cast<std::size_t>(count)});
    }
    for (auto body = next_body(reader); body && *body; body = next_body(reader))
      values.emplace_back(parse_body(**body).value().value);
    return values;
  }

  // Greeted, with the key "big" set to 60 bytes.
  Fd client() {
    Fd socket = connect();
    std::string bytes;
    append_hello(bytes, "right");
    append_set(bytes, "big", std::string(60, 'v'));
    send(socket, bytes);
    EXPECT_EQ(answers(socket).size(), 2u);
    return socket;
  }

  static std::string gets(int count) {
    std::string bytes;
    for (int i = 0; i < count; ++i) append_get(bytes, "big");
    return bytes;
  }

  SocketAddress address_;
  std::unique_ptr<StoreService> service_;
};

// 64 ranks on 64 hosts ask for more than the limit at once, and then are silent for long.
TEST_F(StoreTurns, RequestsThatWaitedForRoomAreAllAnswered) {
  serve({.unread = 100});
  const Fd socket = client();
  send(socket, gets(9));
  EXPECT_THAT(answers(socket), testing::ElementsAreArray(std::vector<std::string>(9, std::string(60, 'v'))));
  EXPECT_EQ(service_->poll_timeout_ms(), -1) << "the client owes nothing";
}

TEST_F(StoreTurns, RepliesThatWaitAreNotTheClientsDelay) {
  serve({.unread = 100});
  Fd socket = client();
  std::string big;
  append_set(big, "larger", std::string(300000, 'v'));  // than a socket holds
  for (std::string_view rest = big; !rest.empty(); service_->serve()) {
    const auto count = ::send(socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    rest.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  }
  std::string requests;
  for (int i = 0; i < 3; ++i) append_get(requests, "larger");
  send(socket, requests);
  settle();
  EXPECT_EQ(service_->poll_timeout_ms(), -1) << "it is slow to read, and owes no message";
  EXPECT_EQ(answers(socket).size(), 4u);
  EXPECT_EQ(service_->poll_timeout_ms(), -1);
}

TEST_F(StoreTurns, ANewWorldVersionRemovesTheKeysOfTheLast) {
  serve({});
  service_->begin_world(0);
  const Fd waiting = connect();
  const Fd other = connect();
  std::string bytes;
  append_hello(bytes, "right");
  append_get(bytes, kWorldVersionKey);
  append_get(bytes, "rank/1");  // never set
  append_get(bytes, kWorldVersionKey);
  send(waiting, bytes);
  bytes.clear();
  append_hello(bytes, "right");
  append_set(bytes, "rank/0", "here");
  append_get(bytes, "world_version/1");
  append_get(bytes, "world_version/2");
  send(other, bytes);
  EXPECT_THAT(answers(waiting), testing::ElementsAre("", "0"));
  EXPECT_THAT(answers(other), testing::ElementsAre("", ""));
  service_->begin_world(1);
  EXPECT_THAT(answers(waiting), testing::ElementsAre(testing::HasSubstr("another version of the world"), "1"));
  EXPECT_THAT(answers(other), testing::ElementsAre(""));
  service_->begin_world(2);
  EXPECT_THAT(answers(other), testing::ElementsAre(""));
  bytes.clear();
  append_get(bytes, "world_version/1");
  append_get(bytes, kWorldVersionKey);
  append_set(bytes, "rank/0", "another value");
  send(waiting, bytes);
  EXPECT_THAT(answers(waiting), testing::ElementsAre("", "2", ""));
  EXPECT_TRUE(service_->has("rank/0"));
  service_->begin_world(3, std::array{WorldMember{0}, WorldMember{2, 1}});
  EXPECT_FALSE(service_->has("rank/0"));
  bytes.clear();
  append_get(bytes, kWorldVersionKey);
  send(waiting, bytes);
  EXPECT_THAT(answers(waiting), testing::ElementsAre("3 0,2:1"));
}

// A rank that has read a version asks for its keys when the next one has begun.
TEST_F(StoreTurns, KeysOfAVersionThatHasPassedAreNotWaitedFor) {
  EXPECT_EQ(world_keys(12), "world/12/");
  serve({});
  service_->begin_world(11);
  const Fd waiting = connect(), late = connect();
  std::string bytes;
  append_hello(bytes, "right");
  append_get(bytes, world_keys(11) + "1");
  send(waiting, bytes);
  EXPECT_THAT(answers(waiting), testing::ElementsAre(""));
  service_->begin_world(12);
  service_->begin_world(13);
  EXPECT_THAT(answers(waiting), testing::ElementsAre(testing::HasSubstr("another version of the world")));
  bytes.clear();
  append_hello(bytes, "right");
  append_get(bytes, world_keys(12) + "1");
  append_set(bytes, world_keys(11) + "0", "late");
  append_remove(bytes, world_keys(11) + "0");
  append_set(bytes, world_keys(13) + "0", "in time");
  append_get(bytes, world_keys(13) + "0");
  append_set(bytes, "world/x/0", "of no version");
  append_get(bytes, world_keys(14) + "0");  // has not begun
  send(late, bytes);
  const auto passed = testing::HasSubstr("another version of the world");
  EXPECT_THAT(answers(late), testing::ElementsAre("", passed, passed, "", "", "in time", ""));
  EXPECT_FALSE(service_->has(world_keys(11) + "0"));
}

// For ranks that wait for others of their version: whatever keys there are, the answer comes at once.
TEST_F(StoreTurns, WhetherAVersionLastsIsAnsweredAtOnce) {
  EXPECT_EQ(world_of("world/12/0/mesh/3"), "world/12/");
  EXPECT_EQ(world_of("0/mesh/3"), "");
  EXPECT_EQ(world_of("world/12"), "");
  serve({});
  service_->begin_world(12);
  const Fd rank = connect();
  std::string bytes;
  append_hello(bytes, "right");
  append_get(bytes, world_keys(12));
  append_get(bytes, world_keys(12));
  append_get(bytes, world_keys(11));
  append_get(bytes, world_keys(13));  // has not begun
  send(rank, bytes);
  const auto passed = testing::HasSubstr("another version of the world");
  EXPECT_THAT(answers(rank), testing::ElementsAre("", "", "", passed));
  service_->begin_world(13);
  EXPECT_THAT(answers(rank), testing::ElementsAre(""));
}

// A job that is restarted again and again.
TEST_F(StoreTurns, VersionsOfTheWorldTakeNoRoom) {
  serve({.keys = 4});
  constexpr int kVersions = 10'000;
  for (int version = 0; version <= kVersions; ++version) service_->begin_world(version);
  const Fd rank = connect();
  std::string bytes;
  append_hello(bytes, "right");
  append_get(bytes, "world_version/1");
  append_get(bytes, "world_version/10000");
  append_set(bytes, "rank/0", "here");
  append_get(bytes, "world_version/10001");  // has not begun
  send(rank, bytes);
  EXPECT_THAT(answers(rank), testing::ElementsAre("", "", "", ""));
  service_->begin_world(kVersions + 1);
  EXPECT_THAT(answers(rank), testing::ElementsAre(""));
  for (const char* const no_version : {"world_version/0", "world_version/-1", "world_version/x", "world_version/",
                                       "world_version/99999999999999999999", "world_versions"}) {
    const Fd other = connect();
    bytes.clear();
    append_hello(bytes, "right");
    append_get(bytes, no_version);
    send(other, bytes);
    EXPECT_THAT(answers(other), testing::ElementsAre("")) << no_version << " is never set";
  }
}

// A rank that removes its announcement, and makes another one, again and again: nothing of the store's room is left for
// it.
TEST_F(StoreTurns, WhatRanksSayOfLostPeersIsBounded) {
  serve({.keys = 100, .lost_peers = 1000});
  const Fd rank = connect();
  std::string bytes, all = "1";
  for (int peer = 0; peer < 300; ++peer) all += fmt::format(" {}", peer);
  append_hello(bytes, "right");
  for (int i = 0; i < 20; ++i) {
    append_set(bytes, "lost_peers/0", all);
    append_remove(bytes, "lost_peers/0");
  }
  send(rank, bytes);
  answers(rank);
  EXPECT_EQ(service_->take_lost_peers().size(), 3u) << "the rest is dropped";
  bytes.clear();
  append_set(bytes, "lost_peers/0", all);
  send(rank, bytes);
  answers(rank);
  EXPECT_EQ(service_->take_lost_peers().size(), 1u);
}

TEST_F(StoreTurns, TheRestOfAMessageIsOwed) {
  serve({.unread = 100});
  const Fd socket = client();
  send(socket, gets(3) + std::string("\x20\0\0", 3));
  EXPECT_EQ(answers(socket).size(), 3u);
  EXPECT_GE(service_->poll_timeout_ms(), 0);
}

TEST_F(StoreTurns, DataThatArrivedWhileNotServedIsNotLate) {
  serve({.unauthenticated = 200, .hello_timeout = 1000ms});
  std::vector<Fd> crowd;  // more than are looked at in one turn
  for (int i = 0; i < 150; ++i) crowd.push_back(connect());
  std::string hello;
  append_hello(hello, "right");
  settle();
  for (const Fd& socket : crowd) send(socket, hello);
  while (service_->poll_timeout_ms() > 0) std::this_thread::sleep_for(5ms);
  settle();
  for (const Fd& socket : crowd) ASSERT_EQ(answers(socket).size(), 1u);
}

// The next connection; invalid once the test is over.
Fd accept_one(const Fd& listener, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    pollfd entry{.fd = listener.get(), .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, 50) <= 0) continue;
    if (Fd socket(::accept(listener.get(), nullptr, nullptr)); socket.valid()) return socket;
  }
  return Fd();
}

// Closes so many connections at once, as a store does with unauthenticated clients that are slow.
void hang_up(const Fd& listener, int times, const std::stop_token& stop) {
  for (int i = 0; i < times; ++i) accept_one(listener, stop);
}

TEST(StoreGreeting, AClientThatWasCutOffTriesAgain) {
  Fd listener = listen_at(SocketAddress::parse("tcp:127.0.0.1:0").value()).value();
  const SocketAddress address = SocketAddress::of(listener.get());
  std::unique_ptr<StoreServer> server;
  std::jthread other([&](const std::stop_token& stop) {
    hang_up(listener, 3, stop);
    listener = Fd();
    server = serve_store(address.text(), "right").value();
  });
  const auto store = connect_store(address, "right", /*wait=*/true, 60s);
  other.request_stop();
  other.join();
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_TRUE((*store)->set("key", "value"));
}

TEST(StoreGreeting, OneThatIsAlwaysCutOffGivesUpInTime) {
  const Fd listener = listen_at(SocketAddress::parse("tcp:127.0.0.1:0").value()).value();
  std::jthread other([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) accept_one(listener, stop);
  });
  const auto store = connect_store(SocketAddress::of(listener.get()), "right", false, 3s);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), Code::kPeerLost);
  EXPECT_THAT(store.error().message(), testing::HasSubstr("closes the connection during authentication"));
}

TEST(MeshHandshake, AMemberThatWasCutOffCallsAgain) {
  const Fd listener = listen_at(SocketAddress::parse("tcp:127.0.0.1:0").value()).value();
  const auto exchange = [&](std::string mine) -> Result<std::vector<std::string>> {
    return std::vector<std::string>{SocketAddress::of(listener.get()).text(), std::move(mine)};
  };
  std::jthread other([&](const std::stop_token& stop) {
    hang_up(listener, 2, stop);
    const Fd socket = accept_one(listener, stop);
    const auto receive = [&](std::size_t bytes) {
      std::string all(bytes, '\0');
      const auto count = ::recv(socket.get(), all.data(), bytes, MSG_WAITALL);
      all.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
      return all;
    };
    const std::string hello =
        receive(std::string_view("xoe-mesh-3\n").size() + 8 + kNonceBytes) + SocketAddress::of(listener.get()).text();
    const std::string nonce = make_nonce();
    const std::string answer = nonce + make_proof("s", End::kServer, hello, nonce);
    EXPECT_EQ(::send(socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL), static_cast<ssize_t>(answer.size()));
    EXPECT_EQ(receive(kProofBytes), make_proof("s", End::kClient, hello, nonce));
    EXPECT_EQ(::send(socket.get(), "+", 1, MSG_NOSIGNAL), 1);
  });
  const auto sockets = connect_members(1, 2, exchange, {.address = "127.0.0.1", .secret = "s"}, Clock::now() + 60s);
  other.request_stop();
  other.join();
  ASSERT_TRUE(sockets) << sockets.error().message();
  EXPECT_TRUE((*sockets)[0].socket.valid());
}

}  // namespace
}  // namespace xoe::bootstrap
