// The mesh of hosts, its members being threads. What waits for time to pass is simulated: mesh_simulated_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <barrier>
#include <condition_variable>
#include <thread>

#include "core/bootstrap/host_mesh.h"
#include "core/bootstrap/member_connection.h"
#include "core/bootstrap/proof.h"
#include "core/bootstrap/socket_address.h"
#include "core/testing/no_descriptors.h"

namespace xoe::bootstrap {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::HasSubstr;

// An exchange among threads.
class Table {
 public:
  explicit Table(int size) : values_(static_cast<std::size_t>(size)), barrier_(size) {}
  Exchange of(int member) {
    return [this, member](std::string mine) -> Result<std::vector<std::string>> {
      values_[static_cast<std::size_t>(member)] = std::move(mine);
      barrier_.arrive_and_wait();
      return values_;
    };
  }
  std::vector<std::string> values_;
  std::barrier<> barrier_;
};

// What one member hears.
struct Ears {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::pair<int, std::string>> messages;
  std::vector<std::pair<int, std::string>> lost;

  MeshEvents events() {
    return {.message =
                [this](HostMesh&, int from, std::string message) {
                  const std::lock_guard lock(mutex);
                  messages.emplace_back(from, std::move(message));
                  changed.notify_all();
                },
            .lost =
                [this](int member, bool silent, const std::string& why) {
                  EXPECT_EQ(silent, why.starts_with("nothing"));
                  const std::lock_guard lock(mutex);
                  lost.emplace_back(member, why);
                  changed.notify_all();
                }};
  }
  template <class Done>
  bool wait(Done done) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 20s, done);
  }
};

struct Mesh {
  explicit Mesh(int size) : table(size), ears(static_cast<std::size_t>(size)), members(static_cast<std::size_t>(size)) {
    std::vector<std::jthread> threads;
    for (int member = 0; member < size; ++member)
      threads.emplace_back([&, member] {
        const auto i = static_cast<std::size_t>(member);
        const MeshOptions options{.connection = {.address = "127.0.0.1", .secret = "s"}};
        auto made = HostMesh::connect(member, size, table.of(member), options, Clock::now() + 20s, ears[i].events());
        if (made) members[i] = std::move(*made);
      });
  }
  Table table;
  std::vector<Ears> ears;
  std::vector<std::unique_ptr<HostMesh>> members;
};

TEST(HostMesh, CarriesMessagesInOrder) {
  for (const int size : {1, 2, 5}) {
    Mesh mesh(size);
    for (const auto& member : mesh.members) ASSERT_NE(member, nullptr);
    constexpr int kEach = 200;
    for (int i = 0; i < kEach; ++i)
      for (int from = 0; from < size; ++from)
        for (int to = 0; to < size; ++to)
          if (to != from)
            mesh.members[static_cast<std::size_t>(from)]->send(
                to, std::to_string(i) + std::string(static_cast<std::size_t>(i) * 997, 'x'));
    for (int to = 0; to < size; ++to) {
      Ears& ears = mesh.ears[static_cast<std::size_t>(to)];
      const auto all = static_cast<std::size_t>(kEach * (size - 1));
      ASSERT_TRUE(ears.wait([&] { return ears.messages.size() == all; }));
      std::vector<int> next(static_cast<std::size_t>(size));
      for (const auto& [from, message] : ears.messages) {
        const int i = next[static_cast<std::size_t>(from)]++;
        ASSERT_EQ(message, std::to_string(i) + std::string(static_cast<std::size_t>(i) * 997, 'x'));
      }
    }
  }
}

TEST(HostMesh, AGoodbyeIsNoLoss) {
  Mesh mesh(3);
  mesh.members[1].reset();
  mesh.members[0]->send(2, "still here");
  ASSERT_TRUE(mesh.ears[2].wait([&] { return mesh.ears[2].messages.size() == 1; }));
  std::this_thread::sleep_for(50ms);
  EXPECT_THAT(mesh.ears[0].lost, testing::IsEmpty());
  EXPECT_THAT(mesh.ears[2].lost, testing::IsEmpty());
}

// Member 0 asks without a pause, from before member 1 has its mesh until that has gone.
TEST(HostMesh, QuestionsAreAnsweredFromTheFirstToTheLastMoment) {
  for (int round = 0; round < 20; ++round) {
    Table table(2);
    const MeshOptions options{.connection = {.address = "127.0.0.1", .secret = "s"}};
    Ears ears;
    std::jthread asking([&](const std::stop_token& stop) {
      const auto mine = HostMesh::connect(0, 2, table.of(0), options, Clock::now() + 20s, ears.events());
      ASSERT_TRUE(mine) << mine.error().message();
      while (!stop.stop_requested()) {
        (*mine)->send(1, "who is there?");
        std::this_thread::sleep_for(100us);
      }
    });
    std::atomic<int> asked = 0;
    const MeshEvents answers{.message =
                                 [&](HostMesh& mesh, int from, const std::string&) {
                                   mesh.send(from, "it is me");
                                   ++asked;
                                 },
                             .lost = [](int, bool, const std::string&) {}};
    {
      const auto theirs = HostMesh::connect(1, 2, table.of(1), options, Clock::now() + 20s, answers);
      ASSERT_TRUE(theirs) << theirs.error().message();
      EXPECT_TRUE(ears.wait([&] { return !ears.messages.empty(); }));
    }
    EXPECT_GT(asked, 0);
    const std::lock_guard lock(ears.mutex);
    EXPECT_EQ(ears.messages.front().second, "it is me");
  }
}

// A member of a meeting of two, spoken by hand: what it sent is in `said`, hello and proof, or is sent again.
struct Spoken {
  std::string hello, proof;
};

// kept: gets the connection.
bool greet(const std::string& address, Spoken& said, Fd* kept = nullptr) {
  Fd socket = connect_to(SocketAddress::parse(address).value(), false, Clock::now() + 5s).value();
  const auto send = [&](const std::string& bytes) {
    (void)::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  };
  const bool first = said.hello.empty();
  if (first) said.hello = std::string("xoe-mesh-3\n\1\0\0\0\0\0\0\0", 19) + make_nonce();
  send(said.hello);
  pollfd entry{.fd = socket.get(), .events = POLLIN, .revents = 0};
  while (::poll(&entry, 1, 100) == 0) {
  }
  std::string challenge(kNonceBytes + kProofBytes, '\0');
  if (::recv(socket.get(), challenge.data(), challenge.size(), 0) != static_cast<ssize_t>(challenge.size()))
    return false;
  if (first) said.proof = make_proof("s", End::kClient, said.hello + address, challenge.substr(0, kNonceBytes));
  send(said.proof);
  char answer = 0;
  while (::poll(&entry, 1, 100) == 0) {
  }
  const bool accepted = ::recv(socket.get(), &answer, 1, 0) == 1 && answer == '+';
  if (kept != nullptr) *kept = std::move(socket);
  return accepted;
}

TEST(MeshHandshake, AGreetingIsGoodOnce) {
  Spoken said;
  for (const bool replayed : {false, true}) {
    bool accepted = false;
    std::string warning;
    const auto exchange = [&](std::string mine) -> Result<std::vector<std::string>> {
      accepted = greet(mine, said);
      return std::vector<std::string>{mine, ""};
    };
    const ConnectOptions options{
        .address = "127.0.0.1", .secret = "s", .warn = [&](const std::string& line) { warning = line; }};
    const auto made = connect_members(0, 2, exchange, options, Clock::now() + (replayed ? 500ms : 20s));
    EXPECT_EQ(accepted, !replayed);
    EXPECT_EQ(made.has_value(), !replayed) << "no other member has come";
    EXPECT_EQ(warning, "");
  }
}

TEST(MeshHandshake, AnUnauthenticatedClientIsReported) {
  std::string warning;
  const auto exchange = [&](std::string mine) -> Result<std::vector<std::string>> {
    EXPECT_EQ(::send(connect_to(SocketAddress::parse(mine).value(), false, Clock::now() + 5s).value().get(), "GET /", 5,
                     MSG_NOSIGNAL),
              5);
    Spoken member;
    EXPECT_TRUE(greet(mine, member));
    return std::vector<std::string>{mine, ""};
  };
  const ConnectOptions options{
      .address = "127.0.0.1", .secret = "s", .warn = [&](const std::string& line) { warning = line; }};
  EXPECT_TRUE(connect_members(0, 2, exchange, options, Clock::now() + 20s));
  EXPECT_THAT(warning, HasSubstr("1 unauthenticated connections"));
}

TEST(MeshHandshake, WaitsWhileThereAreNoDescriptors) {
  bool admitted = false;
  MemberAcceptor acceptor(listen_at(SocketAddress::tcp("127.0.0.1", 0).value()).value(),
                          {.secret = "s",
                           .expects = [](std::uint32_t, std::uint32_t) { return true; },
                           .admit = [&](int, int, const MemberConnection&) { admitted = true; }});
  const auto turn = [&] {
    std::vector<pollfd> entries;
    acceptor.add_entries(entries);
    ::poll(entries.data(), entries.size(), acceptor.waits() ? 200 : -1);
    acceptor.serve(entries);
  };
  const auto at = SocketAddress::parse(acceptor.address()).value();
  const Fd client = connect_to(at, false, Clock::now() + 20s).value();
  {
    const NoDescriptors none;
    const auto began = Clock::now();
    for (int i = 0; i < 4; ++i) turn();
    EXPECT_GE(Clock::now() - began, 300ms) << "it sleeps meanwhile";
    EXPECT_EQ(acceptor.unauthenticated(), 0u);
  }
  const auto deadline = Clock::now() + 20s;
  while (acceptor.unauthenticated() == 0 && Clock::now() < deadline) turn();
  EXPECT_EQ(acceptor.unauthenticated(), 1u);
  const std::jthread member([&] {
    EXPECT_TRUE(connect_member({.self = 1, .lane = 0, .address = acceptor.address(), .secret = "s"}, deadline));
  });
  while (!admitted && Clock::now() < deadline) turn();
  EXPECT_TRUE(admitted);
}

// Who takes over a connection that a member has authenticated cannot say anything in its name.
TEST(HostMesh, WhatTheMemberDidNotSendIsNoMessage) {
  Ears ears;
  Fd taken_over;
  const auto exchange = [&](std::string mine) -> Result<std::vector<std::string>> {
    Spoken member;
    EXPECT_TRUE(greet(mine, member, &taken_over));
    return std::vector<std::string>{mine, ""};
  };
  const MeshOptions options{.connection = {.address = "127.0.0.1", .secret = "s"}};
  const auto mesh = HostMesh::connect(0, 2, exchange, options, Clock::now() + 20s, ears.events());
  ASSERT_TRUE(mesh) << mesh.error().message();
  std::string frame;
  append_little(frame, std::uint32_t{25});
  frame += "this is for the mesh's me";
  ASSERT_EQ(::send(taken_over.get(), frame.data(), frame.size(), MSG_NOSIGNAL), static_cast<ssize_t>(frame.size()));
  ASSERT_TRUE(ears.wait([&] { return !ears.lost.empty(); }));
  EXPECT_THAT(ears.lost[0].second, HasSubstr("changed on its way"));
  EXPECT_TRUE(ears.messages.empty());
}

TEST(HostMesh, UnauthenticatedClientsAreNotInTheWay) {
  Table table(2);
  std::vector<Fd> unauthenticated;
  std::jthread other;
  Ears ears[2];
  const MeshOptions options{.connection = {.address = "127.0.0.1", .secret = "s"}};
  const auto crowd = [&](const Exchange& exchange) {
    return [&, exchange](std::string mine) {
      const auto at = SocketAddress::parse(mine).value();
      for (int i = 0; i < 100; ++i) {
        unauthenticated.push_back(connect_to(at, false, Clock::now() + 5s).value());
        if (i % 2 == 0) (void)::send(unauthenticated.back().get(), std::string(500, 'x').data(), 500, MSG_NOSIGNAL);
      }
      return exchange(std::move(mine));
    };
  };
  std::unique_ptr<HostMesh> theirs;
  other = std::jthread([&] {
    auto made = HostMesh::connect(1, 2, table.of(1), options, Clock::now() + 10s, ears[1].events());
    if (made) theirs = std::move(*made);
  });
  const auto mine = HostMesh::connect(0, 2, crowd(table.of(0)), options, Clock::now() + 10s, ears[0].events());
  other.join();
  ASSERT_TRUE(mine) << mine.error().message();
  ASSERT_NE(theirs, nullptr);
  theirs->send(0, "hello");
  EXPECT_TRUE(ears[0].wait([&] { return ears[0].messages.size() == 1; }));
}

}  // namespace
}  // namespace xoe::bootstrap
