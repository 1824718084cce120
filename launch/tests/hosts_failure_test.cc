// Failures on several hosts: the messages, and the processes that are left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "launch/tests/fake_hosts.h"

namespace xoe::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The number that follows `word` in the job's output.
pid_t pid_after(const Launched& job, const std::string& word) {
  std::string line;
  EXPECT_TRUE(eventually([&] {
    const std::string out = job.out();
    const auto at = out.find(word);
    if (at == out.npos || out.find('\n', at) == out.npos) return false;
    line = out.substr(at + word.size());
    return true;
  })) << job.out();
  return std::atoi(line.c_str());
}

class HostsFailure : public testing::Test {
 protected:
  // Of a job that could not start because of one host.
  void expect_refusal(const std::string& hosts, int code, const testing::Matcher<std::string>& message) {
    const auto ran = hosts_.run(hosts, "echo started");
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_EQ(ran.out, "") << "nothing starts before all hosts are ready";
    EXPECT_THAT(ran.err, message);
    EXPECT_THAT(ran.err, HasSubstr("nothing was started"));
  }
  // Ranks that stay, and print the pid of their agent: the parent of their supervisor.
  Launched stay(const std::vector<std::string>& options = {}) const {
    return Launched(hosts_.arguments(
        "one,two", "read -r _ _ _ agent _ < /proc/$PPID/stat; echo agent$XOE_RANK=$agent; exec sleep 100", options));
  }
  FakeHosts hosts_;
};

TEST_F(HostsFailure, Unreachable) {
  expect_refusal("one,gone", 125, AllOf(HasSubstr("host gone: unreachable"), HasSubstr("| ssh: connect to host gone")));
}

TEST_F(HostsFailure, WrongKey) {
  expect_refusal("denied,two", 125, AllOf(HasSubstr("host denied: "), HasSubstr("--ssh-identity-file")));
}

TEST_F(HostsFailure, UnknownHostKey) {
  expect_refusal("unknown,two", 125, AllOf(HasSubstr("host unknown: host key"), HasSubstr("known_hosts")));
  expect_refusal("changed,two", 125, AllOf(HasSubstr("host changed: host key"), HasSubstr("ssh-keygen -R changed")));
}

TEST_F(HostsFailure, NoXoeThere) {
  expect_refusal("one,bare", 125, AllOf(HasSubstr("host bare: there is no xoe"), HasSubstr("--xoe-path")));
}

TEST_F(HostsFailure, ACommandThatIsMissingInAProfile) {
  expect_refusal("one,sour", 125,
                 AllOf(HasSubstr("host sour: "), HasSubstr("exited with code 127"),
                       HasSubstr("| profile: line 3: module"), Not(HasSubstr("there is no xoe"))));
}

TEST_F(HostsFailure, SomethingElseAnswers) {
  expect_refusal("one,odd", 125, AllOf(HasSubstr("host odd: "), HasSubstr("| This account is not available.")));
}

TEST_F(HostsFailure, AnotherVersion) {
  expect_refusal("one,old", 125, AllOf(HasSubstr("host old: has Xoe 0.0.7"), HasSubstr("install the same version")));
}

TEST_F(HostsFailure, NoProgramThere) {
  Launched job({"run", "-H", "one,two", "--ssh-command", hosts_.folder() + "/ssh", "no-such-program"});
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 127);
  // The other host is not waited for.
  EXPECT_THAT(ran.err, AllOf(testing::ContainsRegex("host (one|two): cannot run no-such-program"),
                             HasSubstr("nothing was started")));
}

TEST_F(HostsFailure, NoFolderThere) {
  // It is removed after the launcher checked it.
  const auto ran = hosts_.run("one", "true", {"--env", "PATH=/nowhere"});
  EXPECT_EQ(ran.code, 127) << "bash is looked for in the PATH that the user gives";
  std::ofstream(hosts_.folder() + "/go") << "mkdir " << hosts_.folder() << "/here && cd " << hosts_.folder()
                                         << "/here && rmdir ../here && exec " << xoe_path()
                                         << " run -H one --ssh-command ../ssh true\n";
  EXPECT_NE(std::system(("bash " + hosts_.folder() + "/go 2> " + hosts_.folder() + "/err").c_str()), 0);
  std::ifstream file(hosts_.folder() + "/err");
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(file), {}), HasSubstr("working directory is gone"));
}

TEST_F(HostsFailure, NoSuchInterfaceThere) {
  const auto ran = hosts_.run("one,two", "true", {"--network-interface", "ib77,10.99.0.0/16"});
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("host one: --network-interface ib77"), HasSubstr("a network, as 10.1.0.0/16")));
}

TEST_F(HostsFailure, CtrlCBeforeTheStart) {
  Launched job(hosts_.arguments("one,slow", "true"));
  EXPECT_TRUE(eventually([&] { return job.processes().size() >= 2; }));
  job.signal(SIGINT);
  EXPECT_EQ(job.wait().code, 130);
  EXPECT_TRUE(job.all_gone());
}

TEST_F(HostsFailure, ARankThatFailsIsNamedWithItsHost) {
  const auto ran = hosts_.run("one:2,two:2", "[ $XOE_RANK = 2 ] || exec sleep 100; echo broken >&2; exit 7");
  EXPECT_EQ(ran.code, 7);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("rank 2 (host two, pid "), HasSubstr("exited with code 7"),
                             HasSubstr("; its last line: broken\n"), HasSubstr("3 other ranks were ended by SIGTERM")));
}

TEST_F(HostsFailure, ARankThatIsKilled) {
  Launched job(hosts_.arguments("one,two", "echo pid$XOE_RANK=$$; exec sleep 100"));
  ::kill(pid_after(job, "pid1="), SIGKILL);
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 137);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("rank 1 (host two, "), HasSubstr("SIGKILL")));
  EXPECT_TRUE(job.all_gone());
}

// What a survivor on a near host does: it ends with the code for a lost peer when process $PEER is gone.
constexpr const char* kSurvive =
    "while [ ! -s $F ]; do sleep 0.02; done; PEER=$(cat $F); while kill -0 $PEER 2> /dev/null; do sleep 0.01; done; "
    "exit 5";

// The survivor's exit is heard of first: until it is gone nothing comes from where the other was killed.
TEST_F(HostsFailure, ARankThatIsKilledFarAwayIsNamed) {
  const std::string hold = hosts_.folder() + "/hold";
  for (const bool shell : {false, true}) {
    const std::string place = hosts_.folder() + (shell ? "/shell" : "/pid");
    const std::string die = "touch " + hold + "; echo $BASHPID > $F.new; mv $F.new $F; kill -9 $BASHPID";
    Launched job(hosts_.arguments("one,far", "F=" + place + "; echo pid$XOE_RANK=$$; if [ $XOE_RANK = 1 ]; then " +
                                                 (shell ? "(" + die + "); exit $?" : die) + "; fi; " + kSurvive));
    const pid_t survivor = pid_after(job, "pid0=");
    EXPECT_TRUE(eventually([&] { return std::filesystem::exists(hold) && ::kill(survivor, 0) != 0; }));
    std::filesystem::remove(hold);
    const auto ran = job.wait();
    EXPECT_TRUE(job.all_gone());
    EXPECT_EQ(ran.code, 137);
    EXPECT_THAT(ran.err, AllOf(HasSubstr("rank 1 (host far, "), Not(HasSubstr("rank 0")),
                               HasSubstr(shell ? "exited with code 137" : "SIGKILL"), Not(HasSubstr("ended by"))));
  }
}

TEST_F(HostsFailure, ASupervisorThatIsKilledFarAwayIsNamed) {
  const std::string place = hosts_.folder() + "/pid";
  const auto ran =
      hosts_.run("one,far", "F=" + place + "; if [ $XOE_RANK = 1 ]; then echo $PPID > $F.new; mv $F.new $F; " +
                                "sleep 0.1; kill -9 $PPID; sleep 100; fi; " + kSurvive);
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err,
              AllOf(HasSubstr("the supervisor process of the ranks on host far was killed"), Not(HasSubstr("rank 0"))));
}

TEST_F(HostsFailure, AnAgentThatIsKilledFarAwayIsNamed) {
  const std::string place = hosts_.folder() + "/pid";
  const auto ran = hosts_.run(
      "one,far", "F=" + place + "; read -r _ _ _ agent _ < /proc/$PPID/stat; if [ $XOE_RANK = 1 ]; then " +
                     "echo $$ > $F.new; mv $F.new $F; sleep 0.1; kill -9 $agent; sleep 100; fi; " + kSurvive);
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("host far: lost: "), Not(HasSubstr("rank 0"))));
}

TEST_F(HostsFailure, ASupervisorThatIsKilledEndsTheJob) {
  Launched job(hosts_.arguments("one,two", "echo super$XOE_RANK=$PPID; exec sleep 100"));
  ::kill(pid_after(job, "super1="), SIGKILL);
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("the supervisor process of the ranks on host two was killed"),
                             HasSubstr("1 other rank was ended by SIGTERM")));
  EXPECT_TRUE(job.all_gone());
}

TEST_F(HostsFailure, AnAgentThatIsKilled) {
  Launched job = stay();
  const auto start = std::chrono::steady_clock::now();
  ::kill(pid_after(job, "agent1="), SIGKILL);
  const auto ran = job.wait();
  EXPECT_LT(seconds_since(start), 8);
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, HasSubstr("host two: lost: the connection to its agent ended"));
  EXPECT_TRUE(job.all_gone());
}

TEST_F(HostsFailure, ALauncherThatIsKilled) {
  Launched job = stay();
  pid_after(job, "agent1=");
  pid_after(job, "agent0=");
  job.signal(SIGKILL);
  EXPECT_EQ(job.wait().code, 137);
  EXPECT_TRUE(job.all_gone());
}

TEST_F(HostsFailure, SignalsReachEveryHost) {
  Launched job(hosts_.arguments("one,two",
                                "trap 'echo saved; exit 0' INT; echo ready$XOE_RANK; while true; do sleep 0.05; done"));
  EXPECT_TRUE(job.wait_for_out("ready0"));
  EXPECT_TRUE(job.wait_for_out("ready1"));
  job.signal(SIGINT);
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("[0] saved"), HasSubstr("[1] saved")));
}

TEST_F(HostsFailure, ASecondCtrlCKills) {
  Launched job(hosts_.arguments("one,two", "trap '' INT TERM; echo ready$XOE_RANK; while true; do sleep 0.05; done"));
  EXPECT_TRUE(job.wait_for_out("ready0"));
  EXPECT_TRUE(job.wait_for_out("ready1"));
  job.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  job.signal(SIGINT);
  EXPECT_EQ(job.wait().code, 130);
  EXPECT_TRUE(job.all_gone());
}

TEST_F(HostsFailure, TimeLimit) {
  const auto ran = hosts_.run("one,two", "exec sleep 100", {"--timeout", "0.5"});
  EXPECT_EQ(ran.code, 124);
}

TEST_F(HostsFailure, ADiscoveryScriptThatIsNotThereIsNotAwaited) {
  Launched job({"run", "--host-discovery-script", "./nonesuch -x", "--min-np", "1", "true"});
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("--host-discovery-script ./nonesuch -x: cannot run ./nonesuch: no such file"),
                             HasSubstr("chmod +x")));
}

TEST_F(HostsFailure, NoNumberOfRanksAndNoHosts) {
  Launched job({"run", "true"});
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("xoe run -np 2 true"));
}

TEST_F(HostsFailure, MoreRanksThanSlots) {
  const auto ran = hosts_.run("one:2,two:2", "echo r", {"-np", "5"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, AllOf(HasSubstr("the hosts have 4 slots"), HasSubstr("--oversubscribe")));
  EXPECT_EQ(hosts_.log(), "");
  EXPECT_EQ(hosts_.run("one:2,two:2", "true", {"-np", "5", "--oversubscribe"}).code, 0);
}

}  // namespace
}  // namespace xoe::launch
