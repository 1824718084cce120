// Which hosts a job has, and for how long one that failed is left out.
#include "launch/agents/host_roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/agents/host_discovery.h"

namespace xoe::launch {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

class Roster : public testing::Test {
 protected:
  using Clock = HostRoster::Clock;
  std::vector<std::string> wanted(seconds later = seconds(0)) {
    std::vector<std::string> names;
    for (const remote::Host& host : roster_.take_wanted(now_ + later)) names.push_back(host.name);
    return names;
  }
  void name(const std::vector<std::string>& names) {
    std::vector<remote::Host> hosts;
    for (const std::string& one : names) hosts.push_back({.name = one, .slots = 2});
    roster_.name(hosts);
  }
  HostRoster roster_{seconds(10), seconds(35)};
  const Clock::time_point now_ = Clock::now();
};

TEST_F(Roster, AHostIsPastWhenItIsAwayAndNotNamed) {
  name({"one", "two"});
  EXPECT_THAT(wanted(), ElementsAre("one", "two"));
  roster_.note_there("one");
  roster_.note_there("two");
  name({"two"});
  EXPECT_FALSE(roster_.is_past("one")) << "its processes may still run";
  roster_.note_gone("one");
  EXPECT_TRUE(roster_.is_past("one"));
  roster_.note_failed("two", now_);
  EXPECT_FALSE(roster_.is_past("two")) << "it is tried again";
  EXPECT_FALSE(roster_.is_past("three"));
  name({"one", "two"});
  EXPECT_FALSE(roster_.is_past("one"));
}

TEST_F(Roster, AHostThatFailedDoesNotComeBeforeItHasEnded) {
  name({"one", "two"});
  EXPECT_THAT(wanted(), ElementsAre("one", "two"));
  roster_.note_there("one");
  roster_.note_failed("one", now_);
  roster_.note_ending("one");
  EXPECT_THAT(wanted(seconds(11)), ElementsAre());
  name({"two"});
  EXPECT_FALSE(roster_.is_past("one")) << "its processes may still run";
  name({"one", "two"});
  roster_.note_gone("one");
  EXPECT_THAT(wanted(seconds(9)), ElementsAre());
  EXPECT_THAT(wanted(seconds(11)), ElementsAre("one"));
}

TEST_F(Roster, AHostComesOnceAndGoesOnce) {
  name({"one", "two"});
  EXPECT_THAT(wanted(), ElementsAre("one", "two"));
  EXPECT_THAT(wanted(), ElementsAre());
  roster_.note_there("one");
  roster_.note_there("two");
  name({"two"});
  EXPECT_THAT(roster_.take_unwanted(), ElementsAre("one"));
  EXPECT_THAT(roster_.take_unwanted(), ElementsAre());
  name({"one", "two"});
  EXPECT_THAT(wanted(), ElementsAre()) << "it has not left yet";
  roster_.note_gone("one");
  EXPECT_THAT(wanted(), ElementsAre("one"));
}

TEST_F(Roster, AHostThatFailsIsLeftOutForTwiceAsLongEachTime) {
  name({"one"});
  for (const int pause : {10, 20, 35, 35}) {
    ASSERT_THAT(wanted(seconds(1000)), ElementsAre("one"));
    EXPECT_EQ(roster_.note_failed("one", now_), seconds(pause));
    EXPECT_EQ(roster_.next_turn(), now_ + seconds(pause));
    EXPECT_THAT(wanted(seconds(pause - 1)), ElementsAre());
  }
  ASSERT_THAT(wanted(seconds(1000)), ElementsAre("one"));
  roster_.note_there("one");
  EXPECT_EQ(roster_.note_failed("one", Clock::now() + std::chrono::hours(1)), seconds(10)) << "it had recovered";
}

TEST_F(Roster, AHostThatIsToBeTakenAwayDoesNotComeBackAtOnce) {
  name({"one"});
  EXPECT_THAT(wanted(), ElementsAre("one"));
  roster_.note_there("one");
  roster_.exclude("one", now_);
  roster_.note_gone("one");
  EXPECT_THAT(wanted(seconds(34)), ElementsAre());
  EXPECT_THAT(wanted(seconds(36)), ElementsAre("one"));
  roster_.note_failed("one", now_);
  roster_.strike("one");
  EXPECT_THAT(wanted(seconds(1000)), ElementsAre());
}

TEST(Discovered, HostsWithAndWithoutSlots) {
  const auto hosts = parse_discovered("nodeA:4\n\n  nodeB \r\n[fd00::1]:2\n[fd00::2]\nnodeA:1\n", 3);
  ASSERT_TRUE(hosts) << hosts.error().message();
  EXPECT_THAT(*hosts, ElementsAre(remote::Host{"nodeA", 4}, remote::Host{"nodeB", 3}, remote::Host{"fd00::1", 2},
                                  remote::Host{"fd00::2", 3}));
  EXPECT_TRUE(parse_discovered("", 1)->empty());
}

TEST(Discovered, ALineThatIsNoHostIsQuoted) {
  for (const char* text : {"node A", "nodeA,nodeB", "a:0", "a:x", "-o ProxyCommand=x", "a:1:2", "a:513"})
    EXPECT_FALSE(parse_discovered(text, 1)) << text;
  EXPECT_THAT(parse_discovered("a;rm", 1).error().message(), HasSubstr("a;rm"));
}

}  // namespace
}  // namespace xoe::launch
