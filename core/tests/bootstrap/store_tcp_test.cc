// The store as other hosts reach it: who does not know the secret gets nothing, and cannot be in the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "core/base/constant_time.h"
#include "core/bootstrap/launch_info.h"
#include "core/bootstrap/own_address.h"
#include "core/bootstrap/sealed_stream.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/store.h"
#include "core/bootstrap/store_client.h"
#include "core/bootstrap/store_protocol.h"
#include "core/bootstrap/store_service.h"
#include "core/bootstrap/user_key.h"
#include "core/testing/scratch.h"

namespace xoe::bootstrap {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Values = std::map<std::string, std::string, std::less<>>;

class StoreTcp : public testing::Test {
 protected:
  void SetUp() override { server_ = serve_store("tcp:127.0.0.1:0", "right").value(); }

  SocketAddress address() const { return SocketAddress::parse(server_->address()).value(); }
  Result<std::unique_ptr<Store>> client(std::string secret = "right") {
    return connect_store(address(), std::move(secret), /*wait=*/false, 5s);
  }
  Fd raw() { return connect_to(address(), false, std::chrono::steady_clock::now() + 5s).value(); }

  static void send(const Fd& socket, std::string_view bytes) {
    (void)::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // All that comes until the server closes; fails after so long.
  static std::string rest_of(const Fd& socket, std::chrono::milliseconds timeout = 8s) {
    std::string all;
    pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
    while (::poll(&entry, 1, static_cast<int>(timeout.count())) > 0) {
      char bytes[4096];
      const auto count = ::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (count <= 0) return all;
      all.append(bytes, static_cast<std::size_t>(count));
    }
    ADD_FAILURE() << "the server kept the connection";
    return all;
  }

  // The nonce and the proof with which the server answers a client's nonce.
  static std::string challenge(const Fd& socket, const std::string& nonce) {
    std::string client_hello;
    append_client_hello(client_hello, nonce);
    send(socket, client_hello);
    std::string answer(4 + 1 + kNonceBytes + kProofBytes, '\0');
    for (std::size_t got = 0; got < answer.size();) {
      pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
      if (::poll(&entry, 1, 5000) <= 0) break;
      const auto count = ::recv(socket.get(), answer.data() + got, answer.size() - got, 0);
      if (count <= 0) break;
      got += static_cast<std::size_t>(count);
    }
    return answer.substr(5);
  }

  std::unique_ptr<StoreServer> server_;
};

// Who changes what passes between a client and the store can add bytes to the client's proof, but no request.
TEST_F(StoreTcp, NothingPutBehindTheProofIsARequest) {
  for (const bool sealed : {false, true}) {
    const Fd socket = raw();
    const std::string nonce = make_nonce();
    const std::string theirs = challenge(socket, nonce).substr(0, kNonceBytes);
    std::string proof, request;
    append_proof(proof, make_proof("right", End::kClient, nonce, theirs));
    append_set(request, "planted", "value");
    if (sealed)
      Sealer(session_keys("wrong", End::kClient, nonce, theirs).send).seal(std::exchange(request, {}), request);
    send(socket, proof + request);
    rest_of(socket);  // closes
  }
  EXPECT_EQ(client().value()->get("planted", 100ms).error().code(), Code::kTimeout);
}

TEST_F(StoreTcp, WhatFollowsTheGreetingIsEncrypted) {
  const Fd socket = raw();
  const std::string nonce = make_nonce();
  const std::string theirs = challenge(socket, nonce).substr(0, kNonceBytes);
  const SessionKeys keys = session_keys("right", End::kClient, nonce, theirs);
  std::string proof, requests, sealed;
  append_proof(proof, make_proof("right", End::kClient, nonce, theirs));
  send(socket, proof);
  append_set(requests, "key", "a value to look for");
  append_get(requests, "key");
  Sealer(keys.send).seal(requests, sealed);
  Opener opener(keys.receive);
  std::string seen, plain;
  pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
  const auto receive_until = [&](auto done) {
    char bytes[4096];
    while (!done() && ::poll(&entry, 1, 5000) > 0) {
      const auto count = ::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      ASSERT_GT(count, 0);
      seen.append(bytes, static_cast<std::size_t>(count));
      ASSERT_TRUE(opener.open({bytes, static_cast<std::size_t>(count)}, plain));
    }
  };
  receive_until([&] { return !plain.empty(); });  // accepted
  send(socket, sealed);
  receive_until([&] { return plain.find("look for") != std::string::npos; });
  EXPECT_THAT(plain, HasSubstr("a value to look for"));
  EXPECT_EQ(seen.find("look for"), std::string::npos);
}

TEST_F(StoreTcp, SetsAndGets) {
  const auto a = client().value();
  const auto b = client().value();
  ASSERT_TRUE(a->set("key", "value"));
  EXPECT_EQ(b->get("key", 5s).value(), "value");
}

TEST_F(StoreTcp, RefusesAWrongSecret) {
  for (const char* secret : {"wrong", "", "righ", "rightt"}) {
    const auto store = client(secret);
    ASSERT_FALSE(store) << secret;
    EXPECT_EQ(store.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(store.error().message(), HasSubstr("secret"));
  }
}

TEST_F(StoreTcp, TakesNoSecretInTheClearAndNoRequestBeforeTheProof) {
  std::string hello, set, get;
  append_hello(hello, "right");
  append_set(set, "key", "hostile");
  append_get(get, "key");
  for (const std::string& bytes : {hello, set, get}) {
    const Fd foreign = raw();
    send(foreign, bytes);
    EXPECT_EQ(rest_of(foreign), "");
  }
  ASSERT_TRUE(client().value()->set("key", "ours"));
}

TEST_F(StoreTcp, AProofServesOnce) {
  // A replay of all messages of another connection.
  const std::string nonce = make_nonce();
  const Fd friendly = raw();
  const std::string first = challenge(friendly, nonce);
  EXPECT_TRUE(equal_in_constant_time(first.substr(kNonceBytes),
                                     make_proof("right", End::kServer, nonce, first.substr(0, kNonceBytes))));
  std::string proof;
  append_proof(proof, make_proof("right", End::kClient, nonce, first.substr(0, kNonceBytes)));
  const Fd foreign = raw();
  EXPECT_NE(challenge(foreign, nonce), first);
  send(foreign, proof);
  EXPECT_THAT(rest_of(foreign), HasSubstr("wrong secret"));
}

TEST_F(StoreTcp, TheServersProofIsNoClients) {
  const Fd foreign = raw();
  std::string echo;
  append_proof(echo, challenge(foreign, make_nonce()).substr(kNonceBytes));
  send(foreign, echo);
  EXPECT_THAT(rest_of(foreign), HasSubstr("wrong secret"));
}

TEST_F(StoreTcp, AnImpostorLearnsNothingThatServes) {
  // The server does not know the secret: the client says so and sends no proof.
  const Fd listener = listen_at(SocketAddress::parse("tcp:127.0.0.1:0").value()).value();
  std::string heard;
  std::jthread impostor([&] {
    pollfd entry{.fd = listener.get(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, 5000);
    const Fd socket(::accept(listener.get(), nullptr, nullptr));
    std::string reply;
    append_challenge(reply, std::string(kNonceBytes + kProofBytes, 'x'));
    send(socket, reply);
    char bytes[1024];
    for (ssize_t count = 1; count > 0;) {
      count = ::recv(socket.get(), bytes, sizeof bytes, 0);
      if (count > 0) heard.append(bytes, static_cast<std::size_t>(count));
    }
  });
  const auto store = connect_store(SocketAddress::of(listener.get()), "right", false, 5s);
  ASSERT_FALSE(store);
  EXPECT_THAT(store.error().message(), HasSubstr("does not know this job's secret"));
  impostor.join();
  EXPECT_EQ(heard.size(), 4 + 1 + kStoreMagic.size() + kNonceBytes);
}

TEST_F(StoreTcp, UnauthenticatedClientsGetLittleMemoryAndLittleTime) {
  const Fd big = raw();
  const std::uint32_t length = kMaxFrame;
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes += static_cast<char>(FrameKind::kClientHello);
  bytes += std::string(8192, 'x');
  send(big, bytes);
  EXPECT_EQ(rest_of(big, 2s), "");  // before its time is up
  const Fd silent = raw();
  EXPECT_EQ(rest_of(silent), "");
}

TEST_F(StoreTcp, ManyUnauthenticatedClientsStallNoRank) {
  std::vector<Fd> unauthenticated;
  for (int i = 0; i < 300; ++i) unauthenticated.push_back(raw());
  const auto store = client();
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_TRUE((*store)->set("key", "value"));
}

TEST(StoreAddress, WithoutASecretNothingIsServedToOtherHosts) {
  const auto server = serve_store("tcp:127.0.0.1:0", "");
  ASSERT_FALSE(server);
  EXPECT_THAT(server.error().message(), HasSubstr("requires a secret"));
}

TEST(StoreAddress, TextAndBack) {
  for (const char* text : {"unix:@xoe-name", "tcp:127.0.0.1:4567", "tcp:[::1]:80"})
    EXPECT_EQ(SocketAddress::parse(text).value().text(), text);
  for (const char* text : {"", "unix:name", "unix:@", "tcp:", "tcp:host", "tcp::1", "tcp:host:99999", "tcp:h:x",
                           "http://a:1", "tcp:[]:1"}) {
    const auto parsed = SocketAddress::parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument) << text;
  }
}

TEST(StoreAddress, NamesAreResolvedWhereThatIsWanted) {
  EXPECT_EQ(SocketAddress::parse("tcp:localhost:80").error().code(), Code::kInvalidArgument);
  const auto local = SocketAddress::resolve("tcp:localhost:80");
  ASSERT_TRUE(local) << local.error().message();
  EXPECT_THAT(local->text(), testing::AnyOf("tcp:127.0.0.1:80", "tcp:[::1]:80"));
  EXPECT_EQ(SocketAddress::resolve("tcp:10.0.0.5:80").value().text(), "tcp:10.0.0.5:80");
  EXPECT_EQ(SocketAddress::resolve("unix:@name").value().text(), "unix:@name");
  EXPECT_EQ(SocketAddress::resolve("tcp:no-such-host.invalid:80").error().code(), Code::kUnavailable);
  EXPECT_EQ(SocketAddress::resolve("tcp:host").error().code(), Code::kInvalidArgument);
}

TEST(OwnAddress, ByNameNetworkAndRoute) {
  EXPECT_EQ(own_address("lo").value(), "127.0.0.1");
  EXPECT_EQ(own_address("nosuch0,127.0.0.0/8").value(), "127.0.0.1");
  EXPECT_EQ(own_address("", "127.0.0.1").value(), "127.0.0.1");
  const auto none = own_address("nosuch0,10.1.2.3/32");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(), HasSubstr("it has"));
  EXPECT_THAT(none.error().message(), HasSubstr("lo 127.0.0.1"));
}

TEST(FileStore, SetsOnceAndLeavesNothing) {
  const Scratch scratch;
  {
    const auto a = open_file_store(scratch.path(), "job", 0).value();
    const auto b = open_file_store(scratch.path(), "job", 1).value();
    const std::string value("a\0b", 3);
    std::jthread later([&] {
      std::this_thread::sleep_for(20ms);
      EXPECT_TRUE(b->set("key/1", value));
    });
    EXPECT_EQ(a->get("key/1", 5s).value(), value);
    EXPECT_TRUE(a->set("key/1", value));
    EXPECT_EQ(a->set("key/1", "other").error().code(), Code::kInvalidArgument);
    EXPECT_EQ(a->get("key/2", 10ms).error().code(), Code::kTimeout);
  }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  EXPECT_EQ(open_file_store(scratch.path() + "/none", "job", 0).error().code(), Code::kInvalidArgument);
}

TEST(FileStore, TellsOfAFolderThatAKilledJobLeft) {
  const Scratch scratch;
  ASSERT_TRUE(open_file_store(scratch.path(), "job", 1).value()->set("key", "of a killed rank"));
  const Status set = open_file_store(scratch.path(), "job", 1).value()->set("key", "other");
  ASSERT_FALSE(set);
  EXPECT_THAT(set.error().message(), testing::AllOf(HasSubstr(scratch.path()), HasSubstr("remove it")));
}

TEST(UserKey, IsMadeOnceAndKeptToTheUser) {
  const Scratch scratch;
  const std::string path = scratch.path() + "/home/.config/xoe/key";
  const Env env(Values{{"HOME", scratch.path() + "/home"}});
  const std::string one = job_secret(env, "job").value();
  EXPECT_EQ(one.size(), 64u);
  EXPECT_EQ(job_secret(env, "job").value(), one);
  EXPECT_NE(job_secret(env, "other").value(), one);
  std::filesystem::permissions(path, std::filesystem::perms::others_read, std::filesystem::perm_options::add);
  const auto open = job_secret(env, "job");
  ASSERT_FALSE(open);
  EXPECT_THAT(open.error().message(), HasSubstr("chmod 600"));
  EXPECT_EQ(job_secret(Env(Values{{"XOE_SECRET", "given"}}), "job").value(), "given");
  EXPECT_FALSE(job_secret(Env(), "job"));
}

// All groups of a job meet at one address: a rank of the second that arrives there early waits for the second's store.
TEST(StoreMeeting, GroupsFollowEachOther) {
  const auto own = [] {
    const auto probe = serve_store("tcp:127.0.0.1:0", "s").value();
    return probe->address().substr(std::string_view("tcp:").size());
  }();
  const auto member = [&](int rank, std::string group) {
    return LaunchInfo{.topology = {.rank = rank, .size = 2, .local_rank = 0, .local_size = 1},
                      .launcher = "xoe",
                      .job = "j",
                      .store = {},
                      .secret = "s",
                      .meeting = own,
                      .host = std::to_string(rank),
                      .group = std::move(group)};
  };
  auto first = open_store(member(0, "0"), 5s).value();
  ASSERT_TRUE(open_store(member(1, "0"), 5s));
  Result<std::unique_ptr<Store>> early = failure(Code::kInternal, "not yet");
  std::jthread arrives([&] { early = open_store(member(1, "1"), 20s); });
  std::this_thread::sleep_for(200ms);  // it is connected to the first group's store, or will be refused: both are fine
  first.reset();
  auto second = open_store(member(0, "1"), 5s).value();
  ASSERT_TRUE(second->set("k", "second"));
  arrives.join();
  ASSERT_TRUE(early) << early.error().to_string();
  EXPECT_EQ((*early)->get("k", 5s).value(), "second");
}

}  // namespace
}  // namespace xoe::bootstrap
