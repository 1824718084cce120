// Jobs over hosts that reach each other: a tree of agents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "launch/tests/fake_hosts.h"

namespace xoe::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr const char* kStay = "read -r _ _ _ agent _ < /proc/$PPID/stat; echo agent$XOE_RANK=$agent; exec sleep 100";

// The first three are reached from here, and three more from each of these.
std::string twelve_hosts() {
  std::string list = "h0";
  for (int i = 1; i < 12; ++i) list += ",h" + std::to_string(i);
  return list;
}

class HostsTree : public testing::Test {
 protected:
  Finished run(const std::string& list, const std::string& script, std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"--fan-out", "3"});
    return hosts_.run(list, script, options);
  }
  // A chain: one, two behind it, three behind that.
  Launched chain(const std::string& script, std::vector<std::string> options = {},
                 Launched::Input input = Launched::Input::kNothing) const {
    options.insert(options.begin(), {"--fan-out", "1"});
    return Launched(hosts_.arguments("one,two,three", script, options), input);
  }
  // The agent of each rank, once all ranks run.
  static std::vector<pid_t> agents_of(const Launched& job, int ranks) {
    std::vector<pid_t> agents;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string word = "agent" + std::to_string(rank) + "=";
      EXPECT_TRUE(job.wait_for_out(word)) << job.out();
      EXPECT_TRUE(eventually([&] { return job.out().find('\n', job.out().find(word)) != std::string::npos; }));
      agents.push_back(std::atoi(job.out().substr(job.out().find(word) + word.size()).c_str()));
    }
    return agents;
  }
  FakeHosts hosts_;
};

TEST_F(HostsTree, EachHostIsReachedFromItsRelay) {
  const auto ran = run(twelve_hosts(), "echo $FAKE_HOST $XOE_RANK/$XOE_SIZE");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(lines_of(ran.out).size(), 12U);
  for (int i = 0; i < 12; ++i)
    EXPECT_THAT(ran.out, HasSubstr("[" + std::to_string(i) + "] h" + std::to_string(i) + " " + std::to_string(i)));
  const auto calls = lines_of(hosts_.log());
  ASSERT_EQ(calls.size(), 12U);
  const auto from = [&calls](const std::string& host) {
    return std::ranges::count_if(calls, [&host](const auto& call) { return call.starts_with("from " + host + ": "); });
  };
  for (const std::string host : {"here", "h0", "h1", "h2"}) EXPECT_EQ(from(host), 3) << host;
}

TEST_F(HostsTree, NoSecretIsOnACommandLine) {
  const auto ran = hosts_.run("one,two",
                              "for f in /proc/[0-9]*/cmdline; do c=$(tr -d '\\0' < $f); "
                              "[[ $c == *$XOE_SECRET* ]] && exit 1; done 2>/dev/null; [ ${#XOE_SECRET} = 32 ] && echo "
                              "$XOE_SECRET",
                              {"--env", "TOKEN=do-not-show", "--fan-out", "1"});
  const auto lines = lines_of(ran.out);
  ASSERT_EQ(lines.size(), 2U) << ran.err;
  EXPECT_THAT(hosts_.log(), AllOf(Not(HasSubstr(lines[0].substr(4))), Not(HasSubstr("do-not-show"))));
}

TEST_F(HostsTree, ZeroReachesAllFromHere) {
  EXPECT_EQ(hosts_.run("one,two,three", "true", {"--fan-out", "0"}).code, 0);
  for (const std::string& call : lines_of(hosts_.log())) EXPECT_THAT(call, testing::StartsWith("from here: "));
}

TEST_F(HostsTree, OutputIsCompleteAndInOrder) {
  const auto ran = run(twelve_hosts(), "seq 20000; echo err >&2; printf end");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(lines_of(ran.err).size(), 12U);
  std::vector<int> next(12, 1);
  for (const std::string& line : lines_of(ran.out)) {
    const auto close = line.find("] ");
    const auto rank = static_cast<std::size_t>(std::atoi(line.c_str() + 1));
    ASSERT_LT(rank, next.size()) << line;
    if (line.substr(close + 2) == "end") continue;
    EXPECT_EQ(line.substr(close + 2), std::to_string(next[rank]++));
  }
  EXPECT_EQ(next, std::vector<int>(12, 20001));
}

TEST_F(HostsTree, ASlowReaderLosesNothing) {
  std::string command = "exec " + xoe_path();
  for (const std::string& word : hosts_.arguments("one,two,three", "head -c 8000000 /dev/zero | tr \"\\0\" x",
                                                  {"--fan-out", "1", "--host-timeout", "1"}))
    command += " '" + word + "'";
  std::ofstream(hosts_.folder() + "/script") << command << " | (sleep 3; tr -cd x | wc -c)\n";
  ASSERT_EQ(std::system(("bash " + hosts_.folder() + "/script > " + hosts_.folder() + "/count").c_str()), 0);
  EXPECT_EQ(file_text(hosts_.folder() + "/count"), "24000000\n");
}

TEST_F(HostsTree, StdinReachesRankZero) {
  Launched job = chain("[ $XOE_RANK = 0 ] || { cat; echo none; exit; }; echo $FAKE_HOST; cat | md5sum", {"-np", "3"},
                       Launched::Input::kPipe);
  job.type(std::string(3'000'000, 'y'));
  job.end_input();
  const auto ran = job.wait();
  EXPECT_THAT(lines_of(ran.out),
              UnorderedElementsAre("[0] one", "[0] 67a78c7113fb2ec7a6e783e39c4270ca  -", "[1] none", "[2] none"));
  EXPECT_TRUE(job.all_gone());
}

TEST_F(HostsTree, ARankThatFailsIsNamedWithItsHost) {
  const auto ran = run(twelve_hosts(), "[ $FAKE_HOST = h10 ] || exec sleep 100; echo broken >&2; exit 7");
  EXPECT_EQ(ran.code, 7);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("rank 10 (host h10, pid "), HasSubstr("; its last line: broken\n"),
                             HasSubstr("11 other ranks were ended by SIGTERM")));
}

TEST_F(HostsTree, WhatIsWrongWithAHostBehindARelay) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"gone", "host gone (reached from one): unreachable"},
      {"denied", "host denied (reached from one): ssh was refused (permission denied)"},
      {"unknown", "host unknown (reached from one): host key verification failed"},
      {"bare", "host bare (reached from one): there is no xoe"},
      {"odd", "host odd (reached from one): "},
      {"old", "host old (reached from one): has Xoe 0.0.7"}};
  for (const auto& [host, message] : cases) {
    const auto ran = hosts_.run("one," + host, "echo started", {"--fan-out", "1"});
    EXPECT_EQ(ran.code, 125);
    EXPECT_EQ(ran.out, "") << "nothing starts before all hosts are ready";
    EXPECT_THAT(ran.err, AllOf(HasSubstr(message), HasSubstr("nothing was started"), Not(HasSubstr("host one:"))));
  }
}

TEST_F(HostsTree, ARelayThatCannotBeReachedIsTheCause) {
  const auto ran = run("one,gone,two,three,four,five", "echo started");
  EXPECT_EQ(ran.code, 125);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, AllOf(HasSubstr("host gone: unreachable"),
                             HasSubstr("  four is reached from gone, and goes with it"), Not(HasSubstr("host four"))));
}

TEST_F(HostsTree, ACheckLooksBehindRelays) {
  const auto ran = run("one,two,three,gone,five,six", "echo started", {"--check"});
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("host six: ready"), HasSubstr("host one: ready"), Not(HasSubstr("started"))));
  EXPECT_THAT(ran.err, HasSubstr("host gone (reached from one): "));
}

TEST_F(HostsTree, ADryRunShowsTheTree) {
  const auto ran = hosts_.run("one,two", "true", {"--fan-out", "1", "--dry-run", "--ssh-identity-file", "/my/key"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(hosts_.log(), "");
  EXPECT_THAT(ran.out, AllOf(HasSubstr("host one: rank 0\n"), HasSubstr("host two (reached from one): rank 1\n")));
}

TEST_F(HostsTree, AKeyIsUsedOnARelayThatHasIt) {
  hosts_.run("one,two", "true", {"--fan-out", "1", "--ssh-port", "2222", "--ssh-identity-file", "/no/key"});
  auto calls = lines_of(hosts_.log());
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_THAT(calls[0], AllOf(HasSubstr("from here: "), HasSubstr("-i /no/key -o IdentitiesOnly=yes")));
  EXPECT_THAT(calls[1], AllOf(HasSubstr("from one: -T"), HasSubstr("-p 2222"), Not(HasSubstr("/no/key"))));
  const std::string key = hosts_.folder() + "/key";
  std::ofstream(key) << "k";
  hosts_.run("one,two", "true", {"--fan-out", "1", "--ssh-identity-file", key});
  EXPECT_THAT(lines_of(hosts_.log()).at(3), HasSubstr("from one: -i " + key + " -o IdentitiesOnly=yes -T"));
}

TEST_F(HostsTree, ALaunchAgentServesRelaysToo) {
  const std::string script = hosts_.folder() + "/exec";
  std::ofstream(script) << "#!/bin/sh\necho \"$FAKE_HOST>$1\" >> " << hosts_.folder()
                        << "/log\nexport FAKE_HOST=$1; shift; exec \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const auto ran = hosts_.run("pod-1,pod-2", "echo $FAKE_HOST", {"--launch-agent", script, "--fan-out", "1"});
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[0] pod-1", "[1] pod-2")) << ran.err;
  EXPECT_THAT(hosts_.log(), HasSubstr("pod-1>pod-2"));
}

TEST_F(HostsTree, ALostRelayIsTheCause) {
  Launched job = chain(kStay);
  ::kill(agents_of(job, 3)[0], SIGKILL);
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("host one: lost: the connection to its agent ended"),
                             HasSubstr("two, three are reached from one, and go with it"), Not(HasSubstr("host two"))));
  EXPECT_TRUE(job.all_gone());
}

TEST_F(HostsTree, AHostBehindARelayIsLost) {
  Launched job = chain(kStay);
  ::kill(agents_of(job, 3)[2], SIGKILL);
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("host three (reached from two): lost: the connection to its agent ended"),
                             Not(HasSubstr("host two")), Not(HasSubstr("host one"))));
  EXPECT_TRUE(job.all_gone());
}

TEST_F(HostsTree, ALauncherThatIsKilled) {
  Launched job = chain(kStay);
  agents_of(job, 3);
  job.signal(SIGKILL);
  EXPECT_EQ(job.wait().code, 137);
  EXPECT_TRUE(job.all_gone());
}

TEST_F(HostsTree, SignalsReachEveryHost) {
  Launched job = chain("trap 'echo saved; exit 0' INT; echo agent$XOE_RANK=1; while true; do sleep 0.05; done");
  agents_of(job, 3);
  job.signal(SIGINT);
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("[0] saved"), HasSubstr("[1] saved"), HasSubstr("[2] saved")));
}

TEST_F(HostsTree, ASecondCtrlCKills) {
  Launched job = chain("trap '' INT TERM; echo agent$XOE_RANK=1; while true; do sleep 0.05; done");
  agents_of(job, 3);
  job.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  job.signal(SIGINT);
  EXPECT_EQ(job.wait().code, 130);
  EXPECT_TRUE(job.all_gone());
}

TEST_F(HostsTree, CtrlCBeforeTheStart) {
  Launched job(hosts_.arguments("one,slow", "true", {"--fan-out", "1"}));
  EXPECT_TRUE(eventually([&] { return hosts_.log().find("slow") != std::string::npos; }));
  job.signal(SIGINT);
  EXPECT_EQ(job.wait().code, 130);
  EXPECT_TRUE(job.all_gone());
}

}  // namespace
}  // namespace xoe::launch
