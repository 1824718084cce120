// Frames over a socket that both ends seal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <array>
#include <string>

#include "launch/remote/agent_connection.h"
#include "launch/remote/frame_connection.h"

namespace xoe::remote {
namespace {

using namespace std::chrono_literals;
using Kind = Frame::Kind;

std::pair<Fd, Fd> sockets() {
  std::array<int, 2> pair{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()), 0);
  return {Fd(pair[0]), Fd(pair[1])};
}

bootstrap::MemberConnection end(bootstrap::End self, Fd socket) {
  return {.socket = std::move(socket), .keys = bootstrap::session_keys("a secret", self, "client", "server")};
}

class Sealed : public testing::Test {
 protected:
  Sealed() {
    ::signal(SIGPIPE, SIG_IGN);
    auto [one, other] = sockets();
    near_.emplace(end(bootstrap::End::kServer, std::move(one)), true);
    far_.emplace(end(bootstrap::End::kClient, std::move(other)), false);
  }

  // Of the next frame; empty when none comes and the connection has ended.
  static std::string next_text(FrameConnection& from, FrameConnection& to) {
    for (int turn = 0; turn < 1000; ++turn) {
      from.write();
      const auto frame = to.next();
      if (!frame || (!*frame && to.closed())) return {};
      if (*frame) return std::string((*frame)->text);
      pollfd entry{.fd = to.in(), .events = POLLIN, .revents = 0};
      ::poll(&entry, 1, 10);
      to.read();
    }
    return "nothing came";
  }

  std::optional<FrameConnection> near_;
  std::optional<FrameConnection> far_;
};

TEST_F(Sealed, CarriesFramesBothWays) {
  far_->greet();
  const std::string large(std::size_t{3} << 20, 'x');
  far_->send({.kind = Kind::kOutput, .text = "first"});
  far_->send({.kind = Kind::kOutput, .text = large});
  EXPECT_TRUE(far_->wants_to_write());
  EXPECT_EQ(next_text(*far_, *near_), "first");
  EXPECT_EQ(next_text(*far_, *near_), large);
  EXPECT_FALSE(far_->wants_to_write());
  near_->send({.kind = Kind::kPrepare, .text = "job"});
  EXPECT_EQ(next_text(*near_, *far_), "job");
  far_->close();
  EXPECT_EQ(next_text(*far_, *near_), "");
  EXPECT_TRUE(near_->closed());
}

TEST_F(Sealed, HidesAndGuardsWhatItCarries) {
  auto [wire, peer] = sockets();
  FrameConnection sender(end(bootstrap::End::kServer, std::move(wire)), false);
  sender.send({.kind = Kind::kPrepare, .text = "a word that no one may read"});
  sender.write();
  std::string bytes(4096, '\0');
  bytes.resize(static_cast<std::size_t>(::recv(peer.get(), bytes.data(), bytes.size(), 0)));
  EXPECT_EQ(bytes.find("no one"), std::string::npos);

  for (const std::size_t at : {std::size_t{0}, std::size_t{10}, bytes.size() - 1}) {
    auto [to, other] = sockets();
    FrameConnection receiver(end(bootstrap::End::kClient, std::move(other)), false);
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    ASSERT_EQ(::send(to.get(), changed.data(), changed.size(), 0), static_cast<ssize_t>(changed.size()));
    to = Fd();
    receiver.read();
    receiver.read();
    EXPECT_TRUE(receiver.closed()) << at;
    EXPECT_FALSE(receiver.next().value()) << at;
  }
}

TEST_F(Sealed, AnAgentThatJoinedIsToldHowItEnded) {
  far_->greet();
  AgentConnections agents;
  agents.push_back(joined_agent("pod", std::move(*near_)));
  EXPECT_EQ(agents[0]->method(), LaunchMethod::kJoined);
  agents[0]->rename("pod#1");
  EXPECT_EQ(agents[0]->host(), "pod#1");
  EXPECT_FALSE(agents[0]->status());
  EXPECT_FALSE(agents[0]->ended(AgentConnection::Clock::now()));
  const auto began = AgentConnection::Clock::now();
  tell_outcome(agents, [](std::size_t agent) {
    return Outcome{.code = 75 + static_cast<std::int64_t>(agent), .lines = "a\nb"};
  });
  EXPECT_GE(AgentConnection::Clock::now() - began, 1s);  // it does not hang up
  far_->read();
  const auto frame = far_->next().value();
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->kind, Kind::kOutcome);
  EXPECT_EQ(frame->value, 75);
  EXPECT_EQ(frame->text, "a\nb");
  far_->close();
  poll_agents(agents, AgentConnection::Clock::now() + 1s);
  EXPECT_TRUE(agents[0]->ended(AgentConnection::Clock::now()));
  EXPECT_EQ(agents[0]->status(), 0);
}

}  // namespace
}  // namespace xoe::remote
