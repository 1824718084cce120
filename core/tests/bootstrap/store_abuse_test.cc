// Clients that mean harm or are broken: none may stall or fill the store for the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

#include "core/base/fd.h"
#include "core/base/random_token.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/store.h"
#include "core/bootstrap/store_client.h"
#include "core/bootstrap/store_service.h"
#include "core/testing/no_descriptors.h"

namespace xoe::bootstrap {
namespace {

using namespace std::chrono_literals;

// A served store with limits that a test can reach.
class Abuse : public testing::Test {
 protected:
  void serve(StoreLimits limits) {
    address_ = SocketAddress::parse("unix:@xoe-test-" + random_token().value()).value();
    service_ = StoreService::listen(address_, "right", limits).value();
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        pollfd entry{.fd = service_->fd(), .events = POLLIN, .revents = 0};
        const int timeout = service_->poll_timeout_ms();
        ::poll(&entry, 1, timeout < 0 ? 10 : std::min(timeout, 10));
        service_->serve();
      }
    });
  }

  Result<std::unique_ptr<Store>> client(std::string secret = "right") {
    return connect_store(address_, std::move(secret), /*wait=*/false, 5s);
  }

  Fd raw() {
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(socket.get(), address_.address(), address_.size()), 0);
    return socket;
  }

  static void send(const Fd& socket, std::string_view bytes) {
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }

  // The server closed the connection, within two seconds.
  static bool closed(const Fd& socket) {
    pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
    while (::poll(&entry, 1, 2000) > 0) {
      char bytes[4096];
      if (::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT) <= 0) return true;
    }
    return false;
  }

  SocketAddress address_;
  std::unique_ptr<StoreService> service_;
  std::jthread thread_;
};

TEST_F(Abuse, AWrongSecretIsRefused) {
  serve({});
  for (const char* secret : {"wrong", "", "righ", "rightt"}) {
    const auto store = client(secret);
    ASSERT_FALSE(store) << secret;
    EXPECT_EQ(store.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(store.error().message(), testing::HasSubstr("secret"));
  }
  EXPECT_TRUE(client());
}

TEST_F(Abuse, NothingIsAnsweredBeforeTheGreeting) {
  serve({});
  ASSERT_TRUE(client().value()->set("k", "v"));
  const Fd socket = raw();
  std::string request;
  append_get(request, "k");
  send(socket, request);
  EXPECT_TRUE(closed(socket));
}

TEST_F(Abuse, GarbageEndsItsConnectionOnly) {
  serve({});
  const auto store = client().value();
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(4, '\0'), std::string("\xff\xff\xff\xff\x02")}) {
    const Fd socket = raw();
    send(socket, garbage);
    EXPECT_TRUE(closed(socket));
  }
  EXPECT_TRUE(store->set("k", "v"));
}

TEST_F(Abuse, ASilentClientIsDropped) {
  serve({.hello_timeout = 50ms, .message_timeout = 50ms});
  const Fd silent = raw();
  EXPECT_TRUE(closed(silent));
  const Fd unfinished = raw();
  std::string bytes;
  append_hello(bytes, "right");
  bytes.append("\x20\0\0", 3);  // the beginning of a message
  send(unfinished, bytes);
  EXPECT_TRUE(closed(unfinished));
}

TEST_F(Abuse, AnIdleRankIsNotDropped) {
  serve({.hello_timeout = 30ms, .message_timeout = 30ms});
  const auto store = client().value();
  std::this_thread::sleep_for(150ms);
  EXPECT_TRUE(store->set("k", "v"));
  EXPECT_EQ(client().value()->get("k", 1s).value(), "v");
}

TEST_F(Abuse, AFloodOfUnauthenticatedClientsKeepsNoRankOut) {
  serve({.unauthenticated = 4});
  std::vector<Fd> flood;
  for (int i = 0; i < 40; ++i) flood.push_back(raw());
  const auto store = client();
  ASSERT_TRUE(store) << store.error().to_string();
  EXPECT_TRUE((*store)->set("k", "v"));
}

TEST_F(Abuse, ConnectionsAreBounded) {
  serve({.connections = 3});
  std::vector<std::unique_ptr<Store>> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(client().value());
  const auto more = client();
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), Code::kResourceExhausted);
  clients.pop_back();
  bool room = false;
  for (int i = 0; i < 400 && !room; ++i) {
    std::this_thread::sleep_for(5ms);
    room = client().has_value();
  }
  EXPECT_TRUE(room);
}

// Not even the spare one that refuses clients.
TEST_F(Abuse, SleepsWhileThereAreNoDescriptors) {
  address_ = SocketAddress::parse("unix:@xoe-test-" + random_token().value()).value();
  service_ = StoreService::listen(address_, "right", {}).value();
  const Fd socket = raw();
  {
    const NoDescriptors none;
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < 4; ++i) {
      pollfd entry{.fd = service_->fd(), .events = POLLIN, .revents = 0};
      ::poll(&entry, 1, service_->poll_timeout_ms());
      service_->serve();
    }
    EXPECT_GE(std::chrono::steady_clock::now() - began, 300ms);
  }
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  for (bool told = false; !told;) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    pollfd entry{.fd = service_->fd(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, 10);
    service_->serve();
    if (service_->poll_timeout_ms() > 200) told = true;  // it waits for the greeting
  }
}

TEST_F(Abuse, KeysAndBytesAreBounded) {
  serve({.keys = 2, .bytes = 100});
  const auto store = client().value();
  ASSERT_TRUE(store->set("a", "1"));
  const Status big = store->set("b", std::string(200, 'x'));
  ASSERT_FALSE(big);
  EXPECT_EQ(big.error().code(), Code::kResourceExhausted);
  ASSERT_TRUE(store->set("b", "2"));
  EXPECT_FALSE(store->set("c", "3"));
  EXPECT_EQ(store->get("a", 1s).value(), "1");
  const std::string keys[] = {"a"};
  ASSERT_TRUE(store->remove(keys));
  EXPECT_TRUE(store->set("c", std::string(90, 'x'))) << "there is room for its bytes, too";
}

TEST_F(Abuse, OversizedArgumentsAreRefusedAtOnce) {
  serve({});
  const auto store = client().value();
  EXPECT_EQ(store->set(std::string(kMaxKey + 1, 'k'), "").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(store->set("", "").error().code(), Code::kInvalidArgument);
  EXPECT_EQ(store->set("k", std::string(kMaxValue + 1, 'v')).error().code(), Code::kInvalidArgument);
  ASSERT_TRUE(store->set("k", std::string(kMaxValue, 'v')));
  EXPECT_EQ(store->get("k", 5s).value(), std::string(kMaxValue, 'v'));
}

// It asks for a megabyte a thousand times and reads nothing.
TEST_F(Abuse, AClientThatDoesNotReadStallsNoOther) {
  serve({});
  const auto store = client().value();
  ASSERT_TRUE(store->set("big", std::string(kMaxValue, 'v')));
  const Fd greedy = raw();
  std::string requests;
  append_hello(requests, "right");
  for (int i = 0; i < 1000; ++i) append_get(requests, "big");
  ::send(greedy.get(), requests.data(), requests.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(store->set("k" + std::to_string(i), "v"));
  EXPECT_EQ(client().value()->get("k99", 1s).value(), "v");
}

TEST_F(Abuse, AClientThatLeavesWhileItWaitsIsForgotten) {
  serve({});
  for (int i = 0; i < 20; ++i) {
    const Fd leaver = raw();
    std::string bytes;
    append_hello(bytes, "right");
    append_get(bytes, "late");
    append_set(bytes, "never", "read");
    send(leaver, bytes);
  }
  const auto store = client().value();
  std::this_thread::sleep_for(20ms);
  ASSERT_TRUE(store->set("late", "v"));
  EXPECT_EQ(store->get("late", 1s).value(), "v");
}

}  // namespace
}  // namespace xoe::bootstrap
