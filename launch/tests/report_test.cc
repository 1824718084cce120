#include "launch/output/report.h"
#include "launch/remote/spawn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

namespace xoe::launch {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int exited(int code) { return code << 8; }

JobOutcome failed_with(int status) {
  JobOutcome outcome;
  outcome.cause = Cause::kRankFailed;
  outcome.host = "a";
  outcome.first_failure = RankEnd{.rank = 3, .pid = 42, .status = status, .ran = 1500ms};
  outcome.ran = 2s;
  return outcome;
}

TEST(Report, StatusesInWords) {
  EXPECT_EQ(remote::describe_status(exited(3)), "exited with code 3");
  EXPECT_EQ(remote::describe_status(SIGSEGV), "was killed by SIGSEGV (segmentation fault)");
  EXPECT_EQ(remote::describe_status(SIGABRT | 0x80), "was killed by SIGABRT (aborted), core dumped");
  EXPECT_EQ(remote::describe_status(SIGFPE), "was killed by SIGFPE (floating point exception)");
}

TEST(Report, GoodJobsHaveNone) {
  EXPECT_THAT(report_lines({}, {}), IsEmpty());
  EXPECT_EQ(exit_code({}), 0);
}

TEST(Report, AFailure) {
  JobOutcome outcome = failed_with(exited(3));
  outcome.last_line = "ValueError: boom\t";
  outcome.terminated = 2;
  outcome.killed = 1;
  EXPECT_THAT(report_lines(outcome, {}),
              ElementsAre("rank 3 (host a, pid 42) exited with code 3 after 1.5 s; its last line: ValueError: boom",
                          "2 other ranks were ended by SIGTERM, 1 of them by SIGKILL after 5 s of grace"));
  EXPECT_EQ(exit_code(outcome), 3);
  EXPECT_EQ(exit_code(failed_with(SIGSEGV)), 139);
}

TEST(Report, NoRankWasFirstAtALimit) {
  JobOutcome outcome = failed_with(SIGTERM);
  outcome.terminated = 2;
  for (const Cause cause : {Cause::kTimeout, Cause::kSignalLimit, Cause::kOutputClosed}) {
    outcome.cause = cause;
    outcome.output_error = cause == Cause::kOutputClosed ? ENOSPC : 0;
    EXPECT_EQ(report_lines(outcome, {}).back(), "2 ranks were ended by SIGTERM");
  }
  outcome.cause = Cause::kTimeout;
  outcome.terminated = 1;
  EXPECT_EQ(report_lines(outcome, {}).back(), "1 rank was ended by SIGTERM");
}

TEST(Report, TheErrorOfAnRProgramIsBeforeItsLastLine) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(reason_in(Lines{"epoch 1", "Error: no such layer", "Execution halted"}), "Error: no such layer");
  EXPECT_EQ(reason_in(Lines{"Error in fit(model) : no such layer", "Calls: main -> fit", "Execution halted", ""}),
            "Error in fit(model) : no such layer");
  EXPECT_EQ(reason_in(Lines{"Error: an older one", "Error in fit(model, images, labels) : ", "  no such layer",
                            "In addition: Warning message:", "  old", "Execution halted"}),
            "Error in fit(model, images, labels) : no such layer");
  EXPECT_EQ(reason_in(Lines{"Error in `fit()`:", "! no such layer", "Backtrace:", "    x", " 1. fit(model)",
                            "Execution halted"}),
            "Error in `fit()`: no such layer")
      << "as rlang writes it";
  EXPECT_EQ(reason_in(Lines{"Error:", "! no such layer", "Execution halted"}), "Error: no such layer");
  EXPECT_EQ(reason_in(Lines{"Error: no such layer"}), "") << "its last line is worth a quote";
  EXPECT_EQ(reason_in(Lines{"Execution halted"}), "");
  EXPECT_EQ(reason_in(Lines{}), "");
  JobOutcome outcome = failed_with(exited(1));
  outcome.last_line = "Execution halted";
  outcome.reason = "Error: no such layer";
  EXPECT_THAT(report_lines(outcome, {}),
              ElementsAre("rank 3 (host a, pid 42) exited with code 1 after 1.5 s; it wrote: Error: no such layer"));
}

TEST(Report, NamesThoseThatMayHaveBeenFirst) {
  JobOutcome outcome = failed_with(exited(3));
  for (int rank = 4; rank < 9; ++rank) outcome.rivals.push_back("rank " + std::to_string(rank));
  EXPECT_EQ(report_lines(outcome, {}).back(),
            "which came first is not known: rank 4; rank 5; rank 6; and 2 ranks on other hosts");
  outcome.rivals.resize(1);
  EXPECT_EQ(report_lines(outcome, {}).back(), "which came first is not known: rank 4");
}

TEST(Report, AUserWhoKillsGivesNoGrace) {
  JobOutcome outcome = failed_with(exited(3));
  outcome.terminated = outcome.killed = 1;
  outcome.killed_by_user = true;
  outcome.passed_on = SIGINT;
  EXPECT_EQ(report_lines(outcome, {}).back(), "1 other rank was ended by SIGTERM, 1 of them by SIGKILL");
}

TEST(Report, ALostSupervisorIsNamedWithItsHost) {
  JobOutcome outcome;
  outcome.cause = Cause::kSupervisorLost;
  outcome.host = "b";
  EXPECT_THAT(report_lines(outcome, {}),
              ElementsAre("the supervisor process of the ranks on host b was killed, and they with it"));
  EXPECT_EQ(exit_code(outcome), 125);
}

TEST(Report, SigkillHintsAtMemory) {
  EXPECT_THAT(report_lines(failed_with(SIGKILL), {}).front(), testing::HasSubstr("ran out of memory"));
}

TEST(Report, AnInterruptedJobIsToldShortly) {
  JobOutcome outcome = failed_with(SIGINT);
  outcome.passed_on = SIGINT;
  EXPECT_THAT(report_lines(outcome, {}), ElementsAre("ended by SIGINT after 2 s"));
  EXPECT_EQ(exit_code(outcome), 130);
  outcome = failed_with(exited(1));
  outcome.passed_on = SIGINT;
  EXPECT_THAT(report_lines(outcome, {}),
              ElementsAre("ended by SIGINT after 2 s", "rank 3 (host a, pid 42) exited with code 1 after 1.5 s"));
  EXPECT_EQ(exit_code(outcome), 1);
  outcome = failed_with(SIGKILL);
  outcome.passed_on = SIGTERM;
  outcome.killed_by_user = true;
  EXPECT_THAT(report_lines(outcome, {}), ElementsAre("killed by SIGTERM after 2 s"));
  EXPECT_EQ(exit_code(outcome), 143);
  // xoe train exits like this after both signals; other codes are reported.
  outcome = failed_with(exited(130));
  outcome.passed_on = SIGTERM;
  EXPECT_THAT(report_lines(outcome, {}), ElementsAre("ended by SIGTERM after 2 s"));
  EXPECT_EQ(exit_code(outcome), 130);
  outcome.passed_on = SIGHUP;
  EXPECT_EQ(report_lines(outcome, {}).size(), 2U);
  // The ranks ended well after the signal: so did the job.
  outcome = {};
  outcome.passed_on = SIGINT;
  EXPECT_THAT(report_lines(outcome, {}), IsEmpty());
  EXPECT_EQ(exit_code(outcome), 0);
}

// However the ranks end: with 0, by the signal, or as xoe train does.
TEST(Report, AJobWhoseHostsAllLeaveHasOneExitCode) {
  JobOutcome well;
  for (JobOutcome outcome : {well, failed_with(SIGTERM), failed_with(exited(130)), failed_with(exited(143))}) {
    outcome.all_leave = true;
    outcome.passed_on = SIGTERM;
    EXPECT_EQ(exit_code(outcome), 143);
    EXPECT_THAT(report_lines(outcome, {}).front(), testing::HasSubstr("every host was to leave: begin it again"));
  }
  JobOutcome crashed = failed_with(exited(3));
  crashed.all_leave = true;
  crashed.passed_on = SIGTERM;
  EXPECT_EQ(exit_code(crashed), 3);
}

TEST(Report, OfSeveralLaunchersTheOneWithTheSignalIsNamed) {
  JobOutcome outcome = failed_with(exited(130));
  outcome.passed_on = SIGTERM;
  EXPECT_THAT(report_lines(outcome, {}, "member 1 (host b)"),
              ElementsAre("member 1 (host b) got SIGTERM; all ranks have ended with it, after 2 s"));
  outcome.killed_by_user = true;
  EXPECT_THAT(report_lines(outcome, {}, "member 1 (host b)"),
              ElementsAre("member 1 (host b) got SIGTERM, and a second one; all ranks were killed by it, after 2 s"));
  outcome = {};
  EXPECT_THAT(report_lines(outcome, {}, ""), IsEmpty());
  outcome.passed_on = SIGTERM;
  EXPECT_EQ(report_lines(outcome, {}, "member 1 (host b)").size(), 1U);
}

TEST(Report, OtherCauses) {
  JobOutcome outcome;
  outcome.cause = Cause::kStartFailed;
  outcome.start_error = ENOENT;
  EXPECT_EQ(exit_code(outcome), 127);
  outcome.start_error = EAGAIN;
  outcome.start_rank = 5;
  EXPECT_EQ(exit_code(outcome), 126);
  EXPECT_THAT(report_lines(outcome, {}).front(), testing::HasSubstr("rank 5"));
  EXPECT_THAT(report_lines(outcome, {}).front(), testing::HasSubstr("ulimit -u"));
  outcome.cause = Cause::kTimeout;
  EXPECT_EQ(exit_code(outcome), 124);
  EXPECT_THAT(report_lines(outcome, {.timeout = std::chrono::seconds(5)}),
              ElementsAre(testing::HasSubstr("the job's time limit of 5 s is over")));
  outcome.cause = Cause::kOutputClosed;
  outcome.output_error = EPIPE;
  EXPECT_EQ(exit_code(outcome), 141);
  EXPECT_THAT(report_lines(outcome, {}), IsEmpty());
  outcome.output_error = ENOSPC;
  EXPECT_EQ(exit_code(outcome), 125);
  EXPECT_THAT(report_lines(outcome, {}), ElementsAre(testing::HasSubstr("No space left")));
  outcome.cause = Cause::kNone;  // it came after a signal
  EXPECT_EQ(exit_code(outcome), 0);
  EXPECT_THAT(report_lines(outcome, {}), ElementsAre(testing::HasSubstr("No space left")));
}

}  // namespace
}  // namespace xoe::launch
