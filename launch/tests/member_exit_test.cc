// Exit codes of the members of a rendezvous, on which schedulers have rules.
#include "launch/rendezvous/member_exit.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

#include "launch/supervise/end_signals.h"

namespace xoe::launch {
namespace {

constexpr int exited(int code) { return code << 8; }

JobOutcome failed(int status) {
  JobOutcome outcome{.cause = Cause::kRankFailed, .host = "b"};
  outcome.first_failure = RankEnd{.rank = 2, .pid = 9, .status = status};
  return outcome;
}

// Of member 0, on host a, and of member 1, on host b.
std::pair<int, int> codes(const JobOutcome& outcome) {
  return {member_code(outcome, 0, "a"), member_code(outcome, 1, "b")};
}

TEST(MemberCode, OfAJobThatEndedWell) { EXPECT_EQ(codes({}), std::pair(0, 0)); }

TEST(MemberCode, OfAProgramThatFailsIsItsOwnEverywhere) {
  EXPECT_EQ(codes(failed(exited(1))), std::pair(1, 1));
  EXPECT_EQ(codes(failed(exited(kRetryHere))), std::pair(kRetryHere, kRetryHere));
  EXPECT_EQ(codes({.cause = Cause::kStartFailed, .host = "b", .start_error = ENOENT}), std::pair(127, 127));
  EXPECT_EQ(codes({.cause = Cause::kStartFailed, .host = "b", .start_error = EACCES}), std::pair(126, 126));
  EXPECT_EQ(codes({.cause = Cause::kTimeout}), std::pair(124, 124));
}

TEST(MemberCode, OfACrashIsToRetryElsewhereWhereItWas) {
  EXPECT_EQ(codes(failed(SIGKILL)), std::pair(kRetryHere, kRetryElsewhere));
  EXPECT_EQ(codes(failed(exited(128 + SIGSEGV))), std::pair(kRetryHere, kRetryElsewhere));
  EXPECT_EQ(codes({.cause = Cause::kSupervisorLost, .host = "b"}), std::pair(kRetryHere, kRetryElsewhere));
  EXPECT_EQ(codes({.cause = Cause::kHostLost, .host = "c"}), std::pair(kRetryHere, kRetryHere));
  EXPECT_EQ(codes({.cause = Cause::kStartFailed, .host = "b", .start_error = EAGAIN}),
            std::pair(kRetryHere, kRetryElsewhere));
}

TEST(MemberCode, AfterSigtermIsToRetryAlsoIfAllRanksEndedWell) {
  JobOutcome outcome{.passed_on = SIGTERM, .signalled = {1}};
  EXPECT_EQ(codes(outcome), std::pair(kRetryHere, kRetryElsewhere));
  outcome.signalled = {0, 1};
  EXPECT_EQ(codes(outcome), std::pair(kRetryElsewhere, kRetryElsewhere));
  JobOutcome followed = failed(exited(130));
  followed.passed_on = SIGTERM;
  followed.signalled = {0};
  EXPECT_EQ(codes(followed), std::pair(kRetryElsewhere, kRetryHere));
}

TEST(MemberCode, IsSaidInWordsWhereItAsksForAnotherRun) {
  EXPECT_EQ(code_in_words(kRetryHere), "exit code 75: run it again; this host is not to blame");
  EXPECT_EQ(code_in_words(kRetryElsewhere), "exit code 76: run it again, on another host if there is one");
  for (const int code : {0, 1, 124, 143}) EXPECT_EQ(code_in_words(code), "");
}

TEST(SignalledMembers, AreNamedWithTheirHosts) {
  const std::vector<std::string> hosts = {"a", "b", "c", "d", "e", "f", "g"};
  EXPECT_EQ(signalled_members({}, hosts), "");
  EXPECT_EQ(signalled_members({.signalled = {1}}, hosts), "member 1 (host b)");
  EXPECT_EQ(signalled_members({.signalled = {0, 2}}, hosts), "members 0 (host a), 2 (host c)");
  EXPECT_EQ(signalled_members({.signalled = {0, 1, 2, 3, 4, 5}}, hosts),
            "members 0 (host a), 1 (host b), 2 (host c), 3 (host d) and 2 more");
  EXPECT_EQ(signalled_members({.signalled = {0, 1, 2, 3, 4, 5, 6}}, hosts), "every member");
  EXPECT_EQ(signalled_members({.signalled = {0}}, {"a"}), "member 0 (host a)");
}

TEST(MemberCode, AfterCtrlCIsTheUsers) {
  JobOutcome outcome = failed(exited(130));
  outcome.passed_on = SIGINT;
  outcome.signalled = {0};
  EXPECT_EQ(codes(outcome), std::pair(130, 130));
  outcome.killed_by_user = true;
  EXPECT_EQ(codes(outcome), std::pair(130, 130));
}

TEST(MemberCode, OfAStartThatFailed) {
  EXPECT_EQ(member_code_of_start(125), kRetryHere);
  EXPECT_EQ(member_code_of_start(128 + SIGTERM), kRetryHere);
  EXPECT_EQ(member_code_of_start(127), 127);
  EXPECT_EQ(member_code_of_start(2), 2);
}

TEST(NextRound, FollowsTheLossOfAMemberOnly) {
  EXPECT_TRUE(calls_for_next_round({.cause = Cause::kHostLost}));
  EXPECT_TRUE(calls_for_next_round({.cause = Cause::kSupervisorLost}));
  EXPECT_FALSE(calls_for_next_round({.cause = Cause::kHostLost, .passed_on = SIGTERM}));
  EXPECT_FALSE(calls_for_next_round(failed(exited(1))));
  EXPECT_FALSE(calls_for_next_round({}));
}

TEST(NextRound, DoesNotCountRestartsForTheSameLoss) {
  using namespace std::chrono_literals;
  JobOutcome outcome{.cause = Cause::kHostLost, .ran = 100s, .restarts = {10s, 95s, 99s}};
  EXPECT_EQ(restarts_used(outcome, 20s), 1);
  outcome.cause = Cause::kRankFailed;
  EXPECT_EQ(restarts_used(outcome, 20s), 3);
}

TEST(EndSignals, OnlyASecondOneAtTheSameHostIsASecondOne) {
  using namespace std::chrono_literals;
  using Meaning = EndSignals::Meaning;
  EndSignals signals;
  const EndSignals::Clock::time_point now{10s};
  EXPECT_FALSE(signals.first());
  EXPECT_EQ(signals.note(1, now), Meaning::kFirst);
  EXPECT_EQ(signals.note(1, now + 100ms), Meaning::kSame);
  EXPECT_EQ(signals.note(2, now + 5s), Meaning::kSame);
  EXPECT_EQ(signals.note(0, now + 6s), Meaning::kSame);
  EXPECT_EQ(signals.note(2, now + 6s), Meaning::kSecond);
  EXPECT_EQ(signals.first(), now);
  EXPECT_EQ(signals.hosts(), (std::set<std::size_t>{0, 1, 2}));
}

}  // namespace
}  // namespace xoe::launch
