// `xoe run -H` over simulated hosts, by ssh: hosts that fall silent, and what is said of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "core/base/text.h"
#include "core/testing/sim/simulated_case.h"
#include "launch/tests/sim/programs.h"
#include "launch/tests/sim/ssh.h"

namespace xoe::launch::sim_tests {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr sim::Time kLongest = 600 * sim::kSecond;
constexpr std::size_t kTime = 10;  // characters before each line of a host's output

// Between the processes of a simulation.
struct Noted {
  std::map<std::string, pid_t> ranks;  // by number
};
Noted* const noted = new Noted;

std::string begin_rank() {
  const char* const rank = ::getenv("XOE_RANK");
  std::printf("ready %s\n", rank);
  return rank;
}

int stays(int, char**) {
  noted->ranks[begin_rank()] = ::getpid();
  while (true) std::this_thread::sleep_for(1000s);
}

int ticks(int, char**) {
  noted->ranks[begin_rank()] = ::getpid();
  for (int i = 0; i < 15; ++i) std::this_thread::sleep_for(1s);
  return 0;
}

// Ends with the code for a lost peer once rank 1 is gone, or is told to end.
int survives(int, char**) {
  noted->ranks[begin_rank()] = ::getpid();
  while (!noted->ranks.contains("1") || ::kill(noted->ranks["1"], 0) == 0) std::this_thread::sleep_for(10ms);
  return 5;
}

// The last rank has much to tell when the others have long ended.
int tells_late(int, char**) {
  if (begin_rank() != "2") return 0;
  std::this_thread::sleep_for(60s);
  for (int i = 0; i < 3000; ++i) std::printf("line %d\n", i);
  return 0;
}

// The launcher's host, and others at which sshd listens.
class Hosts {
 public:
  explicit Hosts(const std::vector<std::string>& names) {
    sim::add_program("xoe", &xoe_program);
    sim::add_program("ssh", &ssh);
    sim::add_program("sshd", &sshd);
    sim::add_program("stays", &stays);
    sim::add_program("ticks", &ticks);
    sim::add_program("survives", &survives);
    sim::add_program("tells_late", &tells_late);
    hosts_.push_back(sim::add_host("here", "10.0.0.1"));
    for (const std::string& name : names) {
      hosts_.push_back(sim::add_host(name, fmt::format("10.0.0.{}", hosts_.size() + 1)));
      hosts_.back().start({"/sim/sshd"}, {"PATH=/sim", "HOME=/nowhere"});
      list_ += (list_.empty() ? "" : ",") + name;
    }
    sim::sleep_for(sim::kSecond);
  }

  void run(const std::string& program, const std::vector<std::string>& options = {}) {
    std::vector<std::string> line{"/sim/xoe", "run", "-H", list_};
    line.insert(line.end(), options.begin(), options.end());
    line.push_back("/sim/" + program);
    launcher_ = hosts_[0].start(line, {"PATH=/sim", "HOME=/nowhere"});
  }

  const sim::Host& host(std::size_t index) const { return hosts_[index + 1]; }
  const sim::Host& launcher_host() const { return hosts_[0]; }
  pid_t launcher() const { return launcher_; }
  // The first of the two that are called xoe.
  pid_t agent(std::size_t index) const {
    for (const auto& one : sim::running())
      if (one.host == host(index).name() && one.name == "xoe") return one.pid;
    return 0;
  }
  void await_ranks(std::size_t count) const {
    const sim::Time until = sim::now() + kLongest;
    while (noted->ranks.size() < count && sim::now() < until) sim::sleep_for(10 * sim::kMilli);
    EXPECT_EQ(noted->ranks.size(), count) << said();
  }
  int code() const {
    EXPECT_TRUE(sim::wait_for_end(launcher_, kLongest)) << said();
    const int status = sim::facts_of(launcher_).status;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string said() const {
    std::string all;
    for (const std::string& line : split_text(hosts_[0].output(), '\n'))
      if (line.size() >= kTime) all += line.substr(kTime) + "\n";
    return all;
  }
  // No process of the job is left; what takes a while to end has it.
  bool all_gone() const {
    return become_true(
        [] { return std::ranges::none_of(sim::running(), [](const auto& one) { return one.name != "sshd"; }); });
  }
  bool ranks_gone() const {
    return become_true([] {
      return std::ranges::none_of(noted->ranks, [](const auto& one) { return !sim::facts_of(one.second).ended; });
    });
  }

 private:
  template <class Condition>
  static bool become_true(const Condition& condition) {
    const sim::Time until = sim::now() + 15 * sim::kSecond;
    while (!condition() && sim::now() < until) sim::sleep_for(10 * sim::kMilli);
    return condition();
  }

  std::vector<sim::Host> hosts_;
  std::string list_;
  pid_t launcher_ = 0;
};

const std::vector<std::string> kTwo{"one", "two"}, kThree{"one", "two", "three"};
const std::vector<std::string> kChain{"--fan-out", "1"};  // one, two behind it, three behind that

// A stopped agent is as silent as a host behind a cut cable.
TEST(SimulatedHosts, AnAgentThatIsStoppedIsLost) {
  sim::simulate_case([] {
    Hosts hosts(kTwo);
    hosts.run("stays");
    hosts.await_ranks(2);
    const pid_t agent = hosts.agent(1);
    sim::signal_process(agent, SIGSTOP);
    EXPECT_EQ(hosts.code(), 125);
    EXPECT_THAT(hosts.said(), AllOf(HasSubstr("host two: lost: nothing was heard of it for 1"),
                                    HasSubstr("--host-timeout"), Not(HasSubstr("host one:"))));
    sim::signal_process(agent, SIGCONT);
    EXPECT_TRUE(hosts.all_gone());
  });
}

TEST(SimulatedHosts, AHostWhoseCableIsCutIsLostAndEndsItsRanks) {
  sim::simulate_case([] {
    Hosts hosts(kTwo);
    hosts.run("stays");
    hosts.await_ranks(2);
    sim::cut_link(hosts.host(1), hosts.launcher_host(), true);
    sim::cut_link(hosts.launcher_host(), hosts.host(1), true);
    EXPECT_EQ(hosts.code(), 125);
    EXPECT_THAT(hosts.said(), HasSubstr("host two: lost: nothing was heard of it for 1"));
    EXPECT_TRUE(hosts.ranks_gone());
  });
}

TEST(SimulatedHosts, ALauncherThatIsStoppedLeavesNoRanks) {
  sim::simulate_case([] {
    Hosts hosts(kTwo);
    hosts.run("stays");
    hosts.await_ranks(2);
    sim::signal_process(hosts.launcher(), SIGSTOP);
    sim::sleep_for(30 * sim::kSecond);
    EXPECT_TRUE(hosts.ranks_gone());
    sim::signal_process(hosts.launcher(), SIGCONT);
    EXPECT_NE(hosts.code(), 0);
    EXPECT_TRUE(hosts.all_gone());
  });
}

// Ctrl-Z is another matter: the launcher says that it will be silent.
TEST(SimulatedHosts, AStoppedJobIsNotLost) {
  for (const auto& options : {std::vector<std::string>(), kChain})
    sim::simulate_case([&options] {
      Hosts hosts(kThree);
      hosts.run("ticks", options);
      hosts.await_ranks(3);
      sim::signal_process(hosts.launcher(), SIGTSTP);
      sim::sleep_for(1000 * sim::kSecond);
      EXPECT_FALSE(sim::facts_of(hosts.launcher()).ended);
      sim::signal_process(hosts.launcher(), SIGCONT);
      EXPECT_EQ(hosts.code(), 0) << hosts.said();
      EXPECT_TRUE(hosts.all_gone());
    });
}

// The launcher waits for what each host has to tell, however long its agent takes.
TEST(SimulatedHosts, ARankThatIsKilledWhereTheAgentIsSlowIsNamed) {
  sim::simulate_case([] {
    Hosts hosts(kTwo);
    hosts.run("survives");
    hosts.await_ranks(2);
    const pid_t agent = hosts.agent(1);
    sim::signal_process(agent, SIGSTOP);
    sim::signal_process(noted->ranks["1"], SIGKILL);
    sim::sleep_for(3 * sim::kSecond);
    sim::signal_process(agent, SIGCONT);
    EXPECT_EQ(hosts.code(), 137);
    EXPECT_THAT(hosts.said(), AllOf(HasSubstr("rank 1 (host two, "), HasSubstr("SIGKILL"), Not(HasSubstr("rank 0 ("))));
    EXPECT_TRUE(hosts.all_gone());
  });
}

TEST(SimulatedHosts, TheStartTimeoutNamesTheHostThatDidNotAnswer) {
  sim::simulate_case([] {
    Hosts hosts(kTwo);
    hosts.host(1).pause(true);
    hosts.run("stays");
    EXPECT_EQ(hosts.code(), 125);
    EXPECT_THAT(hosts.said(),
                AllOf(HasSubstr("host two: did not answer within 30 s (--start-timeout)"), Not(HasSubstr("host one"))));
    EXPECT_TRUE(noted->ranks.empty());
  });
}

TEST(SimulatedTree, TheStartTimeoutNamesTheHostThatDidNotAnswer) {
  sim::simulate_case([] {
    Hosts hosts(kThree);
    hosts.host(1).pause(true);
    hosts.run("stays", kChain);
    EXPECT_EQ(hosts.code(), 125);
    EXPECT_THAT(hosts.said(), AllOf(HasSubstr("host two (reached from one): did not answer within 30 s"),
                                    HasSubstr("three is reached from two"), Not(HasSubstr("host one"))));
    EXPECT_TRUE(noted->ranks.empty());
  });
}

// Silence of a relay is silence of all behind it, but only one is to blame.
TEST(SimulatedTree, OnlyTheHostThatFallsSilentIsBlamed) {
  for (const std::size_t silent : {0U, 1U, 2U})
    sim::simulate_case([silent] {
      Hosts hosts(kThree);
      hosts.run("stays", kChain);
      hosts.await_ranks(3);
      const pid_t agent = hosts.agent(silent);
      sim::signal_process(agent, SIGSTOP);
      EXPECT_EQ(hosts.code(), 125);
      const std::vector<std::string> names{
          "host one: ", "host two (reached from one): ", "host three (reached from two): "};
      for (std::size_t i = 0; i < 3; ++i) {
        const std::string lost = names[i] + "lost: nothing was heard of it for 1";
        EXPECT_EQ(hosts.said().find(i == silent ? lost : names[i]) != std::string::npos, i == silent) << hosts.said();
      }
      sim::signal_process(agent, SIGCONT);
      EXPECT_TRUE(hosts.all_gone());
    });
}

TEST(SimulatedTree, ARelayWhoseRanksEndedFirstStays) {
  sim::simulate_case([] {
    Hosts hosts(kThree);
    hosts.run("tells_late", kChain);
    EXPECT_EQ(hosts.code(), 0) << hosts.said();
    EXPECT_THAT(hosts.said(), HasSubstr("[2] line 2999\n"));
    EXPECT_TRUE(hosts.all_gone());
  });
}

}  // namespace
}  // namespace xoe::launch::sim_tests
