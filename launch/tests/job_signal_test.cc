// Signals to the launcher reach the ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/testing/scratch.h"
#include "launch/tests/launched.h"

namespace xoe::launch {
namespace {

using testing::HasSubstr;

const char* const kReports =
    "for s in INT TERM QUIT HUP USR1 USR2; do trap \"echo got $s; [ $s = USR1 -o $s = USR2 ] || exit 0\" $s; done; "
    "echo ready; while true; do sleep 0.02; done";

class Passed : public testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(Passed, ToEveryRank) {
  const auto [name, number] = GetParam();
  Launched job(script_arguments(2, kReports));
  ASSERT_TRUE(both_ready(job));
  job.signal(number);
  EXPECT_TRUE(job.wait_for_out(std::string("[0] got ") + name));
  EXPECT_TRUE(job.wait_for_out(std::string("[1] got ") + name));
  if (number == SIGUSR1 || number == SIGUSR2) job.signal(SIGTERM);
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 0) << ran.err;  // the ranks ended well, so the job did
  EXPECT_TRUE(job.all_gone());
}

INSTANTIATE_TEST_SUITE_P(Signals, Passed,
                         testing::Values(std::pair{"INT", SIGINT}, std::pair{"TERM", SIGTERM},
                                         std::pair{"QUIT", SIGQUIT}, std::pair{"HUP", SIGHUP},
                                         std::pair{"USR1", SIGUSR1}, std::pair{"USR2", SIGUSR2}),
                         [](const auto& one) { return one.param.first; });

TEST(JobSignal, RanksThatDieOfItGiveItsCode) {
  Launched job(script_arguments(2, "echo ready; exec sleep 100"));
  ASSERT_TRUE(both_ready(job));
  job.signal(SIGINT);
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 128 + SIGINT);
  EXPECT_THAT(ran.err, HasSubstr("ended by SIGINT after"));
  EXPECT_TRUE(job.all_gone());
}

// One rank has ended as the signal asked, and another still writes its checkpoint.
TEST(JobSignal, ARankMayTakeLongerThanTheOthers) {
  Launched job(script_arguments(
      2,
      "trap '[ $XOE_RANK = 1 ] && exit 130; echo saving' INT; trap 'echo terminated; exit 1' TERM; trap 'echo "
      "saved; exit 0' USR1; echo ready $$; while true; do sleep 0.02; done",
      {"--grace", "0.1"}));
  ASSERT_TRUE(both_ready(job));
  const std::string tag = "[1] ready ";
  const pid_t quick = std::atoi(job.out().c_str() + job.out().find(tag) + tag.size());
  job.signal(SIGINT);
  ASSERT_TRUE(job.wait_for_out("[0] saving"));
  ASSERT_TRUE(eventually([&] { return state_of(quick) == 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // longer than the grace
  job.signal(SIGUSR1);
  const auto ran = job.wait();
  EXPECT_THAT(ran.out, HasSubstr("[0] saved")) << ran.err;
  EXPECT_THAT(ran.out, testing::Not(HasSubstr("terminated")));
  EXPECT_EQ(ran.code, 130);
  EXPECT_THAT(ran.err, HasSubstr("ended by SIGINT after"));
  EXPECT_TRUE(job.all_gone());
}

// A rank that fails because its peer has left is no one to blame, and the others keep their time. Not by SIGINT, which
// bash drops when its child ends at the same moment.
TEST(JobSignal, WhatFollowsFromItIsNoFailureOfItsOwn) {
  for (const char* leaves : {"129", "0"}) {
    Launched job(script_arguments(
        3,
        std::string("trap '[ $XOE_RANK = 2 ] && exit ") + leaves +
            "; echo saving' HUP; trap '[ $XOE_RANK = 1 ] && exit 1; echo saved; exit 129' USR1; trap 'echo "
            "terminated; exit 1' TERM; echo ready $$; while true; do sleep 0.02; done",
        {"--grace", "0.1"}));
    ASSERT_TRUE(job.wait_for_out("[0] ready"));
    ASSERT_TRUE(job.wait_for_out("[1] ready"));
    ASSERT_TRUE(job.wait_for_out("[2] ready "));
    const std::string tag = "[2] ready ";
    const pid_t quick = std::atoi(job.out().c_str() + job.out().find(tag) + tag.size());
    job.signal(SIGHUP);
    ASSERT_TRUE(job.wait_for_out("[0] saving"));
    ASSERT_TRUE(eventually([&] { return state_of(quick) == 0; }));
    job.signal(SIGUSR1);
    const auto ran = job.wait();
    EXPECT_EQ(ran.code, 128 + SIGHUP) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("[0] saved"));
    EXPECT_THAT(ran.out, testing::Not(HasSubstr("terminated")));
    EXPECT_THAT(ran.err, HasSubstr("rank 1 (host"));
    EXPECT_THAT(ran.err, HasSubstr("exited with code 1"));
    EXPECT_THAT(ran.err, HasSubstr("when another rank had ended"));
    EXPECT_TRUE(job.all_gone());
  }
}

// Behind these signals there may be no one who sends a second one.
TEST(JobSignal, ARankThatIsStuckDoesNotKeepTheJob) {
  for (const auto& [name, number] : {std::pair{"TERM", SIGTERM}, std::pair{"HUP", SIGHUP}}) {
    Launched job(script_arguments(3,
                                  std::string("trap '[ $XOE_RANK = 1 ] && exit 0; echo stuck; trap \"\" TERM' ") +
                                      name + "; echo ready; while true; do sleep 0.02; done",
                                  {"--signal-limit", "0.5", "--grace", "0.2"}));
    for (const char* rank : {"[0] ready", "[1] ready", "[2] ready"}) ASSERT_TRUE(job.wait_for_out(rank));
    job.signal(number);
    const auto ran = job.wait();
    EXPECT_EQ(ran.code, 128 + number) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("2 ranks still ran 500 ms after the first had ended, the limit of --signal-limit"));
    EXPECT_THAT(ran.err, HasSubstr("2 of them by SIGKILL after 200 ms of grace"));
    EXPECT_TRUE(job.all_gone());
  }
}

// A failure before that is no answer to the signal: it ends the others.
TEST(JobSignal, AFailureAfterItEndsTheOthers) {
  Launched job(
      script_arguments(2, "trap '[ $XOE_RANK = 1 ] && exit 7' INT; echo ready; while true; do sleep 0.02; done"));
  ASSERT_TRUE(both_ready(job));
  job.signal(SIGINT);
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 7);
  EXPECT_THAT(ran.err, HasSubstr("rank 1 (host"));
}

TEST(JobSignal, TheSecondOneKills) {
  Launched job(script_arguments(2, "trap 'echo no' INT; echo ready; while true; do sleep 0.02; done"));
  ASSERT_TRUE(both_ready(job));
  job.signal(SIGINT);
  ASSERT_TRUE(job.wait_for_out("[1] no"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  job.signal(SIGINT);
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 128 + SIGINT);
  EXPECT_THAT(ran.err, HasSubstr("killed by SIGINT"));
  EXPECT_TRUE(job.all_gone());
}

TEST(JobSignal, TheSameOneTwiceAtOnceCountsOnce) {
  Launched job(
      script_arguments(2, "trap 'sleep 0.1; echo saved; exit 0' TERM; echo ready; while true; do sleep 0.02; done"));
  ASSERT_TRUE(both_ready(job));
  job.signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  job.signal(SIGTERM);
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("[1] saved"));
}

TEST(JobSignal, StopsAndContinues) {
  Launched job(script_arguments(2, "echo ready $$; while true; do echo tick; sleep 0.02; done", {"--timeout", "60"}));
  ASSERT_TRUE(both_ready(job));
  const auto pid_of = [&](const std::string& tag) {
    return std::atoi(job.out().c_str() + job.out().find(tag) + tag.size());
  };
  const pid_t ranks[] = {pid_of("[0] ready "), pid_of("[1] ready ")};

  job.signal(SIGTSTP);
  int status = 0;
  ASSERT_EQ(::waitpid(job.pid(), &status, WUNTRACED), job.pid());
  EXPECT_TRUE(WIFSTOPPED(status));
  for (const pid_t rank : ranks) EXPECT_TRUE(eventually([&] { return state_of(rank) == 'T'; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));

  const auto before = job.out().size();
  job.signal(SIGCONT);
  for (const pid_t rank : ranks) EXPECT_TRUE(eventually([&] { return state_of(rank) != 'T'; }));
  EXPECT_TRUE(eventually([&] { return job.out().size() > before; }));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait().code, 128 + SIGTERM);
  EXPECT_TRUE(job.all_gone());
}

TEST(JobSignal, AStoppedJobCanBeEnded) {
  Launched job(script_arguments(2, "echo ready; [ $XOE_RANK = 1 ] && kill -STOP $$; sleep 0.3; exit 9"));
  EXPECT_EQ(job.wait().code, 9);
  EXPECT_TRUE(job.all_gone());
}

// Ctrl-C with `| tee log`: the reader is gone, and the ranks still have something to save.
TEST(JobSignal, AReaderThatLeavesWithTheSignalEndsNothing) {
  const Scratch scratch;
  const std::string place = scratch.file("reader");
  const std::string rank =
      "trap \"for i in 1 2 3 4 5 6 7 8; do echo saving; sleep 0.1; done; touch $0.saved; exit 0\" INT; "
      "echo ready; while true; do sleep 0.02; done";
  std::ofstream(place + ".job") << "echo $$ > " << place << ".pid; exec " << xoe_path()
                                << " run -np 1 --grace 0.2 bash -c '" << rank << "' " << place << '\n';
  std::ofstream(place) << "bash " << place << ".job | { read -r _; kill -INT $(< " << place
                       << ".pid); }; exit ${PIPESTATUS[0]}\n";
  EXPECT_EQ(WEXITSTATUS(std::system(("timeout 30 bash " + place).c_str())), 0);
  EXPECT_TRUE(std::filesystem::exists(place + ".saved"));
}

TEST(JobSignal, IgnoredSignalsStayIgnored) {
  struct sigaction before = {};
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGHUP, &ignore, &before);
  Launched job(script_arguments(1, "echo ready; sleep 0.3; echo alive"));
  ::sigaction(SIGHUP, &before, nullptr);
  ASSERT_TRUE(job.wait_for_out("ready"));
  job.signal(SIGHUP);
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("alive"));
}

}  // namespace
}  // namespace xoe::launch
