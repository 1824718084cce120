// Jobs over several hosts that this one plays: what ranks see, and how their output and input travel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launch/tests/fake_hosts.h"

namespace xoe::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

class HostsJob : public testing::Test {
 protected:
  FakeHosts hosts_;
};

TEST_F(HostsJob, RanksKnowTheirPlace) {
  const auto ran = hosts_.run("one:2,two:1",
                              "echo $FAKE_HOST $XOE_HOSTNAME $XOE_RANK/$XOE_SIZE $XOE_LOCAL_RANK/$XOE_LOCAL_SIZE "
                              "$XOE_CROSS_RANK/$XOE_CROSS_SIZE ${XOE_STORE%:*} $XOE_HOST_TIMEOUT");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  const auto lines = lines_of(ran.out);
  ASSERT_EQ(lines.size(), 3U) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("[0] one one 0/3 0/2 0/2 tcp:"));
  EXPECT_THAT(ran.out, HasSubstr("[1] one one 1/3 1/2 0/1 tcp:"));
  EXPECT_THAT(ran.out, HasSubstr("[2] two two 2/3 0/1 1/2 tcp:"));
  EXPECT_THAT(lines[0], testing::EndsWith(" 10"));
}

TEST_F(HostsJob, ShowsOnlyTheRanksThatAreAskedFor) {
  const auto ran = hosts_.run("one:2,two:2", "echo $FAKE_HOST", {"--only-rank", "1-2"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[1] one", "[2] two"));
  const auto refused = hosts_.run("one:2,two:2", "echo", {"--only-rank", "4"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--only-rank 4: there are 4 ranks"));
}

TEST_F(HostsJob, MapsByNode) {
  const auto ran = hosts_.run("one:2,two:2", "echo $FAKE_HOST", {"--map-by", "node", "-np", "3"});
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[0] one", "[1] two", "[2] one")) << ran.err;
}

TEST_F(HostsJob, FolderProgramAndVariablesReachEveryHost) {
  ::setenv("XOE_TEST_PASSED", "p q", 1);
  ::setenv("NOT_PASSED", "secret of the shell", 1);
  ::setenv("CHOSEN", "a'b\xff", 1);
  const auto ran = hosts_.run("one,two", "echo \"$PWD|$XOE_TEST_PASSED|$NOT_PASSED|$CHOSEN|$B|$PATH\"",
                              {"--env", "CHOSEN", "--env", "B=1 2", "--network-interface", "lo", "--backend", "gloo"});
  const std::string seen = std::filesystem::current_path().string() + "|p q||a'b\xff|1 2|" + std::getenv("PATH");
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[0] " + seen, "[1] " + seen)) << ran.err;
  const auto chosen = hosts_.run("one", "echo $XOE_BACKEND,$XOE_INTERFACE,$XOE_STORE",
                                 {"--network-interface", "127.0.0.0/8", "--backend", "gloo"});
  EXPECT_THAT(chosen.out, HasSubstr("[0] gloo,127.0.0.0/8,tcp:127.0.0.1:")) << chosen.err;
  ::unsetenv("XOE_TEST_PASSED");
  ::unsetenv("NOT_PASSED");
  ::unsetenv("CHOSEN");
}

// Horovod puts the whole environment on the command line of ssh, where `ps` shows it to everybody.
TEST_F(HostsJob, NeitherSecretNorVariablesAreOnACommandLine) {
  const auto ran = hosts_.run("one,two",
                              "for f in /proc/[0-9]*/cmdline; do c=$(tr -d '\\0' < $f); "
                              "[[ $c == *$XOE_SECRET* ]] && exit 1; done 2>/dev/null; [ ${#XOE_SECRET} = 32 ] && echo "
                              "$XOE_JOB $XOE_SECRET",
                              {"--env", "TOKEN=do-not-show"});
  const auto lines = lines_of(ran.out);
  ASSERT_EQ(lines.size(), 2U) << ran.err;
  EXPECT_EQ(lines[0].substr(4), lines[1].substr(4));
  const std::string secret = lines[0].substr(lines[0].rfind(' ') + 1);
  EXPECT_THAT(hosts_.log(), AllOf(Not(HasSubstr(secret)), Not(HasSubstr("do-not-show")), HasSubstr("xoe agent")));
}

// Horovod remembers for an hour that ssh worked.
TEST_F(HostsJob, EveryRunAsksEveryHost) {
  for (int round = 1; round <= 2; ++round) {
    EXPECT_EQ(hosts_.run("one,two", "true").code, 0);
    EXPECT_EQ(lines_of(hosts_.log()).size(), 2U * static_cast<std::size_t>(round));
  }
}

TEST_F(HostsJob, SshGetsItsOptions) {
  hosts_.run("one", "true", {"--ssh-port", "2222", "--ssh-identity-file", "/my/key", "--start-timeout", "7"});
  EXPECT_THAT(hosts_.log(), AllOf(HasSubstr("-T "), HasSubstr("BatchMode=yes"), HasSubstr("-p 2222"),
                                  HasSubstr("-i /my/key"), HasSubstr("ConnectTimeout=7"), HasSubstr(" one exec ")));
}

TEST_F(HostsJob, ALoginShellMayTalk) {
  const auto ran = hosts_.run("noisy,two", "echo $FAKE_HOST");
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[0] noisy", "[1] two")) << ran.err;
}

TEST_F(HostsJob, OutputIsCompleteAndTagged) {
  const auto ran = hosts_.run("one:2,two:2", "seq 50000; echo err >&2; printf end", {"--output-dir", hosts_.folder()});
  EXPECT_EQ(lines_of(ran.out).size(), 4 * 50001U);
  EXPECT_THAT(ran.out, HasSubstr("[3] 50000\n"));
  EXPECT_THAT(lines_of(ran.err), UnorderedElementsAre("[0] err", "[1] err", "[2] err", "[3] err"));
  const std::string kept = file_text(hosts_.folder() + "/rank.2/stdout");
  EXPECT_EQ(kept.size(), 288894U + 3);
  EXPECT_TRUE(kept.ends_with("50000\nend"));
  EXPECT_EQ(file_text(hosts_.folder() + "/rank.3/stderr"), "err\n");
}

// More than any window or pipe holds, and a reader that does not read: agents must not be taken for dead meanwhile.
TEST_F(HostsJob, ASlowReaderLosesNothing) {
  std::string command = "exec " + xoe_path();
  for (const std::string& word :
       hosts_.arguments("one,two", "head -c 8000000 /dev/zero | tr \"\\0\" x", {"--host-timeout", "1"}))
    command += " '" + word + "'";
  std::ofstream(hosts_.folder() + "/script") << command << " | (sleep 4; tr -cd x | wc -c)\n";
  ASSERT_EQ(std::system(("bash " + hosts_.folder() + "/script > " + hosts_.folder() + "/count").c_str()), 0);
  EXPECT_EQ(file_text(hosts_.folder() + "/count"), "16000000\n");
}

TEST_F(HostsJob, RankZeroReadsStdin) {
  Launched job(hosts_.arguments("one,two", "[ $XOE_RANK = 0 ] || { cat; echo none; exit; }; cat | md5sum"),
               Launched::Input::kPipe);
  const std::string text(3'000'000, 'y');
  job.type(text);
  job.end_input();
  const auto ran = job.wait();
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[0] 67a78c7113fb2ec7a6e783e39c4270ca  -", "[1] none"));
}

TEST_F(HostsJob, RankZeroNeedNotRead) {
  Launched job(hosts_.arguments("one,two", "exec 0<&-; sleep 0.2; echo done"), Launched::Input::kPipe);
  job.type("x\n");
  EXPECT_EQ(job.wait().code, 0);
}

TEST_F(HostsJob, BackgroundProcessesEndWithTheJob) {
  const auto ran = hosts_.run("one,two", "setsid bash -c 'trap \"\" TERM; while true; do sleep 0.05; done' & echo done",
                              {"--grace", "0.3"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[0] done", "[1] done"));
}

TEST_F(HostsJob, ALaunchAgentTakesTheHostAndACommand) {
  const std::string script = hosts_.folder() + "/exec";
  std::ofstream(script) << "#!/bin/sh\necho \"$*\" >> " << hosts_.folder()
                        << "/log\nexport FAKE_HOST=$1; shift; exec \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const auto ran = hosts_.run("pod-1,pod-2", "echo $FAKE_HOST", {"--launch-agent", script});
  EXPECT_THAT(lines_of(ran.out), UnorderedElementsAre("[0] pod-1", "[1] pod-2")) << ran.err;
  EXPECT_THAT(hosts_.log(), HasSubstr("pod-2 " + std::filesystem::canonical(xoe_path()).string() + " agent"));
}

TEST_F(HostsJob, ManyHosts) {
  std::string list = "h0";
  for (int i = 1; i < 64; ++i) list += ",h" + std::to_string(i);
  const auto ran = hosts_.run(list, "echo $FAKE_HOST");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(lines_of(ran.out).size(), 64U);
  EXPECT_THAT(ran.out, HasSubstr("[63] h63\n"));
}

TEST_F(HostsJob, ALongStartTimeoutHoldsForTheRanksToo) {
  const std::string script = "echo \"<$XOE_START_TIMEOUT>\"";
  EXPECT_EQ(hosts_.run("one", script).out, "[0] <>\n");
  EXPECT_EQ(hosts_.run("one", script, {"--start-timeout", "40"}).out, "[0] <>\n");
  EXPECT_EQ(hosts_.run("one", script, {"--start-timeout", "300"}).out, "[0] <300>\n");
  EXPECT_EQ(hosts_.run("one", script, {"--start-timeout", "300", "--env", "XOE_START_TIMEOUT=7"}).out, "[0] <7>\n");
}

TEST_F(HostsJob, ADryRunAsksNobodyAndTellsNoSecret) {
  const auto ran = hosts_.run("one:2,gone:1", "echo $FAKE_HOST", {"--dry-run", "--env", "TOKEN=do-not-show"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(hosts_.log(), "");
  EXPECT_THAT(ran.out, AllOf(HasSubstr("host one: ranks 0 1\n"), HasSubstr("host gone: rank 2\n"), HasSubstr("TOKEN"),
                             Not(HasSubstr("do-not-show")), Not(HasSubstr("XOE_SECRET")), Not(HasSubstr("bound"))));
  const auto bound = hosts_.run("one", "true", {"--dry-run", "--bind-to", "numa"});
  EXPECT_THAT(bound.out, HasSubstr("on each host each rank is bound near its GPU, or else to one NUMA node, from the "
                                   "network interface's on\n"));
}

TEST_F(HostsJob, ACheckLooksAtEveryHostAndStartsNothing) {
  const auto good = hosts_.run("one:2,two:1", "echo started", {"--check"});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_THAT(good.out, AllOf(HasSubstr("host one: ready"), HasSubstr("host two: ready"), HasSubstr("2 ranks"),
                              HasSubstr("program "), HasSubstr("clock "), Not(HasSubstr("started"))));
  const auto bad = hosts_.run("gone,one,denied", "echo started", {"--check"});
  EXPECT_EQ(bad.code, 125);
  EXPECT_THAT(bad.out, AllOf(HasSubstr("host one: ready"), Not(HasSubstr("started"))));
  EXPECT_THAT(bad.err, AllOf(HasSubstr("host gone: "), HasSubstr("host denied: ")));
}

}  // namespace
}  // namespace xoe::launch
