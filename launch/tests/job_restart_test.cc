// Ranks that fail and are restarted: --restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "core/testing/scratch.h"
#include "launch/tests/fake_hosts.h"
#include "launch/tests/launched.h"

namespace xoe::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// True in the first process of a rank, and not in those after it.
std::string first_life(const Scratch& scratch) { return "mkdir " + scratch.file("lived-") + "$XOE_RANK 2>/dev/null"; }

// The other ranks wait until the failed one was restarted.
std::string wait_for(const Scratch& scratch, int rank) {
  const std::string again = scratch.file("again-" + std::to_string(rank));
  return "while [ ! -e " + again + " ]; do sleep 0.02; done";
}

TEST(JobRestart, AFailedRankIsStartedAnewAndTheOthersGoOn) {
  const Scratch scratch;
  const std::string script = "if [ $XOE_RANK = 1 ]; then if " + first_life(scratch) +
                             "; then echo first; exit 3; fi; touch " + scratch.file("again-1") + "; fi; " +
                             wait_for(scratch, 1) + "; echo $$ done";
  const auto ran = run_script(3, script, {"--restarts", "2"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("[1] first"), HasSubstr("[0] "), HasSubstr("[2] ")));
  EXPECT_EQ(lines_of(ran.out).size(), 4U) << ran.out;
  EXPECT_THAT(ran.err, HasSubstr("exited with code 3 after"));
  EXPECT_THAT(ran.err, HasSubstr("; restarted, 1 of 2 restarts left\n"));
}

TEST(JobRestart, AKilledRankLeavesNothingInTheWayOfTheNextOne) {
  const Scratch scratch;
  // The child of the first process would hold the lock for long.
  const std::string lock = scratch.file("lock");
  const std::string script = "if " + first_life(scratch) + "; then (flock 9; touch " + scratch.file("held") +
                             "; sleep 100) 9>" + lock + " & while [ ! -e " + scratch.file("held") +
                             " ]; do sleep 0.02; done; kill -9 $$; fi; flock -w 20 " + lock + " echo free";
  const auto ran = run_script(1, script, {"--restarts", "1"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "[0] free\n");
}

TEST(JobRestart, TheLastRestartIsTheLast) {
  const auto ran = run_script(2, "if [ $XOE_RANK = 1 ]; then echo up; exit 5; fi; sleep 100", {"--restarts", "2"});
  EXPECT_EQ(ran.code, 5);
  EXPECT_EQ(ran.out, "[1] up\n[1] up\n[1] up\n");
  EXPECT_THAT(ran.err, AllOf(HasSubstr("1 of 2 restarts left"), HasSubstr("0 of 2 restarts left")));
  EXPECT_THAT(ran.err, HasSubstr("1 other rank was ended by SIGTERM"));
}

TEST(JobRestart, WhatDoesNotGetBetterIsNotRestarted) {
  for (const auto& [script, code] : {std::pair("echo up; exit 2", 2), std::pair("echo up; exec ./nonesuch", 127)}) {
    for (const std::vector<std::string>& options :
         {std::vector<std::string>{"--restarts", "5"}, std::vector<std::string>{"--restarts", "5", "--min-np", "1"}}) {
      const auto ran = run_script(1, script, options);
      EXPECT_EQ(ran.code, code) << ran.err;
      EXPECT_EQ(ran.out, "[0] up\n");
      EXPECT_THAT(ran.err, HasSubstr("rank 0 is not restarted: exit code " + std::to_string(code))) << ran.err;
    }
  }
}

TEST(JobRestart, WhereARankIsDoneTheOthersAreNot) {
  const Scratch scratch;
  const std::string script = "if [ $XOE_RANK = 0 ]; then touch " + scratch.file("again-0") + "; exit 0; fi; " +
                             wait_for(scratch, 0) + "; sleep 0.5; exit 4";
  const auto ran = run_script(2, script, {"--restarts", "5"});
  EXPECT_EQ(ran.code, 4);
  EXPECT_THAT(ran.err, Not(HasSubstr("restarted")));
}

TEST(JobRestart, WhoeverAsksForTheEndGetsIt) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Launched job(script_arguments(2, "echo up; sleep 100", {"--restarts", "5"}));
    ASSERT_TRUE(job.wait_for_out("[0] up") && job.wait_for_out("[1] up"));
    job.signal(signal);
    const auto ran = job.wait();
    EXPECT_EQ(ran.code, 128 + signal);
    EXPECT_THAT(ran.err, Not(HasSubstr("restarted")));
    EXPECT_TRUE(job.all_gone());
  }
}

TEST(JobRestart, NothingIsLeftWhenTheLauncherIsKilled) {
  Launched job(script_arguments(2, "echo up; sleep 100", {"--restarts", "5"}));
  ASSERT_TRUE(job.wait_for_out("[0] up") && job.wait_for_out("[1] up"));
  job.signal(SIGKILL);
  EXPECT_TRUE(job.all_gone());
}

TEST(JobRestart, TheTimeLimitEndsAJobThatWouldGoOn) {
  const auto ran = run_script(2, "sleep 100", {"--restarts", "5", "--timeout", "0.5"});
  EXPECT_EQ(ran.code, 124);
  EXPECT_THAT(ran.err, Not(HasSubstr("restarted")));
}

TEST(JobRestart, OnSeveralHosts) {
  const FakeHosts hosts;
  const Scratch scratch;
  const std::string script = "if [ $XOE_RANK = 2 ]; then if " + first_life(scratch) +
                             "; then kill -9 $$; fi; echo $FAKE_HOST $XOE_LOCAL_RANK; touch " +
                             scratch.file("again-2") + "; fi; " + wait_for(scratch, 2) + "; echo done";
  const auto ran = hosts.run("one:2,two:2", script, {"--restarts", "1"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("[2] two 0\n"));
  EXPECT_EQ(lines_of(ran.out).size(), 5U) << ran.out;
  EXPECT_THAT(ran.err, AllOf(HasSubstr("rank 2 (host two, pid "), HasSubstr("0 of 1 restarts left")));
  const auto again = hosts.run("one,two", "exit 7", {"--restarts", "1"});
  EXPECT_EQ(again.code, 7) << again.err;
}

TEST(JobRestart, TheOptionIsChecked) {
  for (const char* value : {"-1", "x", "10001"})
    EXPECT_THAT(run_script(1, "true", {"--restarts", value}).err, HasSubstr("0 to 10000")) << value;
  EXPECT_EQ(run_script(1, "exit 0", {"--reset-limit", "3"}).code, 0);  // Horovod's name
}

}  // namespace
}  // namespace xoe::launch
