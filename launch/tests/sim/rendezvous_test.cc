// `xoe run --rendezvous` on simulated hosts: how members meet, how they end, and what each exits with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/testing/sim/simulated_case.h"
#include "launch/rendezvous/member_exit.h"
#include "launch/tests/sim/members.h"
#include "launch/tests/sim/programs.h"

namespace xoe::launch::sim_tests {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr int kHere = kRetryHere, kElsewhere = kRetryElsewhere;

const std::string kOtherSecret = write_secret("another secret of some length");

std::string meaning(int code) { return fmt::format("xoe run: {}\n", code_in_words(code)); }

TEST(Meeting, ALateLeaderIsAwaited) {
  sim::simulate_case([] {
    Members members(2);
    members.start(1, "tells_place");
    sim::sleep_for(100 * sim::kSecond);
    EXPECT_TRUE(members.runs(1));
    members.start(0, "tells_place");
    EXPECT_THAT(members.codes(), ElementsAre(0, 0));
    EXPECT_THAT(members.said(1), HasSubstr("[1] 1/2 0/1 1/2"));
  });
}

TEST(Meeting, MembersThatNeverComeAreNamed) {
  sim::simulate_case([] {
    Members members(4);
    for (const int member : {0, 2}) members.start(member, "tells_place");
    EXPECT_THAT(members.codes(), ElementsAre(kHere, kHere));
    for (const int member : {0, 2})
      EXPECT_THAT(members.said(member),
                  AllOf(HasSubstr("members 1,3 have not joined within 300 s (--rendezvous-timeout)"),
                        Not(HasSubstr("[0]")), Not(HasSubstr("[2]"))));
  });
}

TEST(Meeting, ALeaderThatNeverComesIsToldOf) {
  sim::simulate_case([] {
    Members members(2);
    members.start(1, "tells_place");
    EXPECT_EQ(members.code(1), kHere);
    EXPECT_THAT(members.said(1),
                AllOf(HasSubstr("member 0 was not there within 300 s (--rendezvous-timeout): 10.0.0.1"),
                      HasSubstr("Connection refused")));
  });
}

TEST(Meeting, AnotherSecretDoesNotJoin) {
  sim::simulate_case([] {
    Members members(2);
    members.start(0, "tells_place", {"--rendezvous-timeout", "60"});
    members.start(1, "tells_place", {}, {"XOE_RENDEZVOUS_SECRET_FILE=" + kOtherSecret});
    EXPECT_THAT(members.codes(), ElementsAre(kHere, 2));
    EXPECT_THAT(members.said(1), HasSubstr("does not know this job's secret; all members need the same secret"));
    EXPECT_THAT(members.said(0), HasSubstr("member 1 has not joined"));
  });
}

TEST(Meeting, SigtermAtAMemberBeforeTheJobLetsAnotherOneIn) {
  sim::simulate_case([] {
    Members members(3);
    for (const int member : {0, 1}) members.start(member, "tells_place");
    sim::sleep_for(sim::kSecond);
    members.signal(1, SIGTERM);
    EXPECT_EQ(members.code(1), kElsewhere);
    members.says(0, "member 1 (host h1) has left; waits for it");
    for (const int member : {1, 2}) members.start(member, "tells_place");
    EXPECT_THAT(members.codes(), ElementsAre(0, 0, 0));
  });
}

TEST(Meeting, SigtermAtTheLeaderBeforeTheJobEndsAll) {
  sim::simulate_case([] {
    Members members(3);
    for (const int member : {0, 1}) members.start(member, "tells_place");
    sim::sleep_for(sim::kSecond);
    members.signal(0, SIGTERM);
    EXPECT_THAT(members.codes(), ElementsAre(kElsewhere, kHere));
    for (const int member : {0, 1})
      EXPECT_THAT(members.said(member),
                  AllOf(HasSubstr("member 0 (host h0) got SIGTERM before all members had joined\n"),
                        EndsWith(meaning(member == 0 ? kElsewhere : kHere))));
  });
}

TEST(Meeting, SigtermAtAMemberThatHasNotMetTheLeader) {
  sim::simulate_case([] {
    Members members(2);
    members.start(1, "tells_place");
    sim::sleep_for(sim::kSecond);
    members.signal(1, SIGTERM);
    EXPECT_EQ(members.code(1), kElsewhere);
    EXPECT_EQ(members.said(1), "xoe run: ended by SIGTERM before it had met member 0\n" + meaning(kElsewhere));
  });
}

TEST(Ends, ARankThatFailsIsNamedEverywhere) {
  for (int failing = 0; failing < 3; ++failing)
    sim::simulate_case([failing] {
      Members members(3);
      members.start_all("fails", {}, {fmt::format("CHOSEN={}", failing)});
      EXPECT_THAT(members.codes(), ElementsAre(3, 3, 3));
      for (int member = 0; member < 3; ++member)
        EXPECT_THAT(members.said(member),
                    AllOf(HasSubstr(fmt::format("rank {} (host h{}", failing, failing)),
                          HasSubstr("exited with code 3"), HasSubstr("its last line: no such layer")));
      EXPECT_TRUE(members.all_gone());
    });
}

TEST(Ends, ACrashIsToRetryElsewhereWhereItWas) {
  for (int failing = 0; failing < 2; ++failing)
    sim::simulate_case([failing] {
      Members members(2);
      members.start_all("crashes", {}, {fmt::format("CHOSEN={}", failing)});
      const auto code = [failing](int member) { return member == failing ? kElsewhere : kHere; };
      EXPECT_THAT(members.codes(), ElementsAre(code(0), code(1)));
      EXPECT_THAT(members.said(1 - failing), HasSubstr("was killed by SIGSEGV"));
      for (int member = 0; member < 2; ++member) EXPECT_THAT(members.said(member), EndsWith(meaning(code(member))));
      EXPECT_TRUE(members.all_gone());
    });
}

TEST(Ends, TheTimeLimit) {
  sim::simulate_case([] {
    Members members(2);
    members.start_all("stays", {"--timeout", "100"});
    EXPECT_THAT(members.codes(), ElementsAre(124, 124));
    EXPECT_TRUE(members.all_gone());
  });
}

TEST(Ends, SigtermAtAnyMemberReachesAllRanks) {
  for (int asked = 0; asked < 3; ++asked)
    sim::simulate_case([asked] {
      Members members(3);
      members.start_all("saves");
      members.all_say("ready");
      members.signal(asked, SIGTERM);
      const auto code = [asked](int member) { return member == asked ? kElsewhere : kHere; };
      EXPECT_THAT(members.codes(), ElementsAre(code(0), code(1), code(2)));
      for (int member = 0; member < 3; ++member)
        EXPECT_THAT(members.said(member),
                    AllOf(HasSubstr(fmt::format("saved {}", member)),
                          ContainsRegex(fmt::format("xoe run: member {} \\(host h{}\\) got SIGTERM; all ranks have "
                                                    "ended with it, after .+s\n",
                                                    asked, asked)),
                          EndsWith(meaning(code(member)))));
      EXPECT_TRUE(members.all_gone());
    });
}

TEST(Ends, SigtermAtAllMembersIsOne) {
  sim::simulate_case([] {
    Members members(2);
    members.start_all("saves", {}, {"SLOW=5", "CODE=130"});
    members.all_say("ready");
    for (const int member : {0, 1}) {
      members.signal(member, SIGTERM);
      sim::sleep_for(2 * sim::kSecond);
    }
    EXPECT_THAT(members.codes(), ElementsAre(kElsewhere, kElsewhere));
    for (const int member : {0, 1})
      EXPECT_THAT(members.said(member),
                  AllOf(HasSubstr(fmt::format("saved {}", member)),
                        HasSubstr("xoe run: every member got SIGTERM; all ranks have ended with it, after "),
                        EndsWith(meaning(kElsewhere))));
  });
}

TEST(Ends, ASecondSignalAtAMemberKills) {
  sim::simulate_case([] {
    Members members(2);
    members.start_all("ignores_signals");
    members.all_say("ready");
    members.signal(1, SIGTERM);
    sim::sleep_for(2 * sim::kSecond);
    members.signal(1, SIGTERM);
    EXPECT_THAT(members.codes(), ElementsAre(kHere, kElsewhere));
    for (const int member : {0, 1})
      EXPECT_THAT(members.said(member),
                  AllOf(ContainsRegex("member 1 \\(host h1\\) got SIGTERM, and a second one; all ranks were killed by "
                                      "it, after .+s\n"),
                        EndsWith(meaning(member == 0 ? kHere : kElsewhere))));
    EXPECT_TRUE(members.all_gone());
  });
}

TEST(Ends, CtrlCAtAMemberIsTheUsers) {
  sim::simulate_case([] {
    Members members(2);
    members.start_all("stays");
    members.all_say("ready");
    members.signal(1, SIGINT);
    EXPECT_THAT(members.codes(), ElementsAre(130, 130));
    for (const int member : {0, 1})
      EXPECT_THAT(
          members.said(member),
          ContainsRegex("xoe run: member 1 \\(host h1\\) got SIGINT; all ranks have ended with it, after .+s\n$"));
  });
}

TEST(Ends, AKilledMemberIsNamedAndTheOthersMayRetry) {
  for (int killed = 0; killed < 3; ++killed)
    sim::simulate_case([killed] {
      Members members(3);
      members.start_all("stays", {"-np", "2"});
      members.all_say("ready");
      members.signal(killed, SIGKILL);
      const auto code = [killed](int member) { return member == killed ? -SIGKILL : kHere; };
      EXPECT_THAT(members.codes(), ElementsAre(code(0), code(1), code(2)));
      for (int member = 0; member < 3; ++member) {
        if (member == killed) continue;
        EXPECT_THAT(members.said(member), EndsWith(meaning(kHere)));
        if (killed == 0)
          EXPECT_THAT(members.said(member), HasSubstr("member 0 (10.0.0.1) is lost"));
        else
          EXPECT_THAT(members.said(member),
                      AllOf(HasSubstr("lost: the connection to its xoe run ended"),
                            HasSubstr(fmt::format("its ranks: {}-{}", 2 * killed, 2 * killed + 1))));
      }
      EXPECT_TRUE(members.all_gone());
    });
}

// Its processes stand still, as those of a machine that is suspended.
TEST(Ends, ASilentMemberIsLost) {
  sim::simulate_case([] {
    Members members(2);
    members.start_all("stays");
    members.all_say("ready");
    members.host(1).pause(true);
    EXPECT_EQ(members.code(0), kHere);
    EXPECT_THAT(members.said(0), HasSubstr("nothing was heard of it for 1"));
    members.host(1).pause(false);
    EXPECT_EQ(members.code(1), kHere);
    EXPECT_TRUE(members.all_gone());
  });
}

TEST(Ends, AMemberWhoseLinkIsCutIsLostOnBothSides) {
  sim::simulate_case([] {
    Members members(2);
    members.start_all("stays");
    members.all_say("ready");
    sim::cut_link(members.host(0), members.host(1), true);
    sim::cut_link(members.host(1), members.host(0), true);
    EXPECT_THAT(members.codes(), ElementsAre(kHere, kHere));
    EXPECT_THAT(members.said(0), HasSubstr("nothing was heard of it for 1"));
    EXPECT_THAT(members.said(1), HasSubstr("member 0 (10.0.0.1) is lost"));
    EXPECT_TRUE(members.all_gone());
  });
}

TEST(Rounds, ARankIsRestartedInItsPlace) {
  sim::simulate_case([] {
    Members members(2);
    members.start_all("fails_once", {"--restarts", "1"});
    EXPECT_THAT(members.codes(), ElementsAre(0, 0));
    EXPECT_THAT(members.said(0), HasSubstr("restarted, 0 of 1 restarts left"));
    EXPECT_THAT(members.said(1), HasSubstr("done 1"));
  });
}

TEST(Rounds, AMemberThatIsLostMayComeBack) {
  sim::simulate_case([] {
    Members members(3);
    members.start_all("takes_rounds", {"--restarts", "1"});
    members.all_say("round");
    members.signal(1, SIGKILL);
    members.says(0, "the job begins again; 0 of 1 restarts left");
    flags->go = true;
    members.start(1, "takes_rounds", {"--restarts", "1"});
    EXPECT_THAT(members.codes(), ElementsAre(0, 0, 0));
    EXPECT_THAT(members.said(2), ContainsRegex("round 2\n(.*\n)*.*round 2\n"));
    EXPECT_TRUE(members.all_gone());
  });
}

TEST(Rounds, SoMayTheLeader) {
  sim::simulate_case([] {
    Members members(3);
    members.start_all("takes_rounds", {"--restarts", "1"});
    members.all_say("round");
    members.signal(0, SIGKILL);
    members.says(1, "waits for member 0 to come back");
    flags->go = true;
    members.start(0, "takes_rounds", {"--restarts", "1"});
    EXPECT_THAT(members.codes(), ElementsAre(0, 0, 0));
    EXPECT_THAT(members.said(2), ContainsRegex("round 2\n(.*\n)*.*round 2\n"));
    EXPECT_TRUE(members.all_gone());
  });
}

TEST(Rounds, ButNotForEver) {
  sim::simulate_case([] {
    Members members(2);
    members.start_all("takes_rounds", {"--restarts", "1"});
    members.all_say("round");
    members.signal(1, SIGKILL);
    EXPECT_EQ(members.code(0), kHere);
    EXPECT_THAT(members.said(0), HasSubstr("member 1 has not joined within 300 s"));
  });
}

}  // namespace
}  // namespace xoe::launch::sim_tests
