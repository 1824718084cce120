// The members of a version of the world, as the launcher writes them and ranks read them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "core/bootstrap/world_members.h"

namespace xoe::bootstrap {
namespace {

TEST(WorldMembers, AreReadAsTheyWereWritten) {
  const std::vector<WorldMember> members{{.slot = 0}, {.slot = 3}, {.slot = 17, .host = 2}};
  EXPECT_EQ(world_text(2, members), "2 0,3,17:2");
  const auto world = parse_world("2 0,3,17:2");
  ASSERT_TRUE(world) << world.error().message();
  EXPECT_EQ(world->version, 2);
  EXPECT_EQ(world->members, members);
  EXPECT_EQ(world_text(7, {}), "7");
  ASSERT_TRUE(parse_world("7"));
  EXPECT_TRUE(parse_world("7")->members.empty());
}

TEST(WorldMembers, ATextOfAnotherKindIsAnError) {
  for (const char* text : {"", "x", "2 ", "2 0,", "2 -1", "2 0:", "2 0:x", "2 0:-1", "2 512", "2 0:1:2"})
    EXPECT_FALSE(parse_world(text)) << text;
}

TEST(WorldMembers, EachHasItsPlaceOnItsHostAndAcrossHosts) {
  // Host 4 has two of them, host 0 three, and host 9 one.
  const std::array members{WorldMember{5, 4}, WorldMember{6, 4}, WorldMember{7, 0},
                           WorldMember{8, 0}, WorldMember{9, 0}, WorldMember{12, 9}};
  const auto text = [&](std::size_t index) {
    const Topology at = topology_of(members, index);
    return std::to_string(at.rank) + "/" + std::to_string(at.size) + " " + std::to_string(at.local_rank) + "/" +
           std::to_string(at.local_size) + " " + std::to_string(at.cross_rank) + "/" + std::to_string(at.cross_size);
  };
  EXPECT_EQ(text(0), "0/6 0/2 0/3");
  EXPECT_EQ(text(1), "1/6 1/2 0/2");
  EXPECT_EQ(text(2), "2/6 0/3 1/3");
  EXPECT_EQ(text(3), "3/6 1/3 1/2");
  EXPECT_EQ(text(4), "4/6 2/3 0/1");
  EXPECT_EQ(text(5), "5/6 0/1 2/3");
}

}  // namespace
}  // namespace xoe::bootstrap
