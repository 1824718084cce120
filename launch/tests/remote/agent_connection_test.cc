// Agents that are played by shell scripts, and what is said about those that fail.
#include "launch/remote/agent_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "launch/remote/host_failure.h"
#include "launch/remote/shell.h"

namespace xoe::remote {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Clock = AgentConnection::Clock;

class Agents : public testing::Test {
 protected:
  Agents() { ::signal(SIGPIPE, SIG_IGN); }

  // `script` in place of ssh: it is given ssh's arguments, of which the last two are the host and the agent's command.
  AgentConnection& connect(const std::string& script) {
    options_.ssh_command = "sh -c " + shell_word(script) + " ssh";
    options_.xoe_path = "/opt/xoe";
    agents_.push_back(connect_agent("node1", LaunchMethod::kSsh, options_, Inherited::current()).value());
    return *agents_.back();
  }
  // Until a frame comes, the connection ends, or the time is over.
  std::optional<Frame> next_frame(AgentConnection& agent, std::chrono::milliseconds timeout = 20s) {
    const auto deadline = Clock::now() + timeout;
    while (Clock::now() < deadline) {
      const auto frame = agent.frames().next();
      if (!frame || *frame) return frame ? *frame : std::nullopt;
      if (agent.ended(Clock::now())) return std::nullopt;
      poll_agents(agents_, std::min(deadline, Clock::now() + 50ms));
    }
    return std::nullopt;
  }
  void expect_end(AgentConnection& agent) {
    while (!agent.ended(Clock::now())) poll_agents(agents_, Clock::now() + 50ms);
  }
  std::string kind_of(const std::string& script) {
    AgentConnection& agent = connect(script);
    expect_end(agent);
    const Diagnosis diagnosis = diagnose(agent, options_);
    EXPECT_FALSE(diagnosis.what.empty());
    EXPECT_THAT(explain_no_agent(agent, options_).lines.front(), HasSubstr("host node1: " + diagnosis.what));
    return diagnosis.kind;
  }

  ConnectOptions options_;
  AgentConnections agents_;
};

TEST_F(Agents, SkipThePreambleAndAnswer) {
  // The kind of a keepalive, then four numbers: 33 bytes.
  AgentConnection& agent = connect(R"(echo Welcome; printf '\001xoe-agent-1\n'; head -c 37; echo done >&2)");
  agent.frames().send({.kind = Frame::Kind::kAlive});
  agent.write();
  const auto echo = next_frame(agent);
  ASSERT_TRUE(echo);
  EXPECT_EQ(echo->kind, Frame::Kind::kAlive);
  EXPECT_EQ(agent.frames().reader().preamble(), "Welcome\n");
  expect_end(agent);
  EXPECT_EQ(agent.stderr_tail(), "done\n");
  EXPECT_EQ(agent.status(), 0);
}

TEST_F(Agents, ThatEndHangOrFlood) {
  AgentConnection& ends = connect("echo words >&2; exit 9");
  EXPECT_FALSE(next_frame(ends));
  expect_end(ends);
  EXPECT_EQ(exit_code_of(ends.status().value()), 9);
  EXPECT_EQ(ends.stderr_tail(), "words\n");
  AgentConnection& floods = connect("exec yes");
  EXPECT_FALSE(next_frame(floods));
  EXPECT_FALSE(floods.frames().reader().greeted());
  connect("trap '' TERM; while :; do sleep 60; done");
  const auto begin = Clock::now();
  disconnect_all(agents_);
  agents_.clear();
  EXPECT_LT(Clock::now() - begin, 10s);
}

TEST_F(Agents, AProgramThatIsNotThere) {
  Inherited nowhere = Inherited::current();
  nowhere.env = Env(std::map<std::string, std::string, std::less<>>{{"PATH", "/nowhere"}});
  const auto agent = connect_agent("node1", LaunchMethod::kSsh, {.xoe_path = "x"}, nowhere);
  ASSERT_FALSE(agent);
  EXPECT_EQ(agent.error().code(), Code::kUnavailable);
  EXPECT_THAT(agent.error().message(), HasSubstr("host node1: cannot run ssh"));
}

TEST_F(Agents, EverySshFailureHasItsRemedy) {
  const auto ssh_kind = [this](const std::string& words) {
    return kind_of("echo " + shell_word(words) + " >&2; exit 255");
  };
  EXPECT_EQ(ssh_kind("me@node1: Permission denied (publickey,password)."), "permission_denied");
  EXPECT_EQ(ssh_kind("Host key verification failed."), "host_key_unknown");
  EXPECT_EQ(ssh_kind("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed."),
            "host_key_changed");
  EXPECT_EQ(ssh_kind("ssh: connect to host node1 port 22: No route to host"), "unreachable");
  EXPECT_EQ(ssh_kind("ssh: connect to host node1 port 22: Connection refused"), "refused");
  EXPECT_EQ(ssh_kind("ssh: connect to host node1 port 22: Connection timed out"), "timeout");
  EXPECT_EQ(ssh_kind("ssh: Could not resolve hostname node1: Name or service not known"), "unknown_name");
  EXPECT_EQ(ssh_kind("Connection closed by 10.0.0.1 port 22"), "closed");
  EXPECT_EQ(kind_of("echo 'sh: 1: exec: xoe: not found' >&2; exit 127"), "xoe_missing");
  EXPECT_EQ(kind_of("echo strange >&2; exit 3"), "other");
  EXPECT_EQ(kind_of("exit 255"), "other");
}

TEST(LaunchMethod, SshAsksForNoPassword) {
  const ConnectOptions options{.ssh_port = 2222,
                               .ssh_identity_file = "key",
                               .xoe_path = "/opt/x'y/xoe",
                               .search_path = true,
                               .start_timeout = 7s};
  const auto command = agent_command("node1", LaunchMethod::kSsh, options, false);
  EXPECT_EQ(command.front(), "ssh");
  EXPECT_THAT(command, ::testing::IsSupersetOf({"BatchMode=yes", "ConnectTimeout=7", "2222", "key", "node1"}));
  // Options end before the name.
  EXPECT_EQ(*(command.end() - 2), "node1");
  EXPECT_THAT(command.back(), HasSubstr("exec xoe agent"));
}

}  // namespace
}  // namespace xoe::remote
