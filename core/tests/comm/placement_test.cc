// Hosts and local ranks of a group.
#include "core/backend/placement.h"

#include <gmock/gmock.h>

namespace xoe {
namespace {

using ::testing::ElementsAre;

TEST(Placement, NumbersHostsByTheirFirstRank) {
  const Placement placement = make_placement({7, 3, 7, 3, 5}, 3);
  EXPECT_THAT(placement.hosts, ElementsAre(0, 1, 0, 1, 2));
  EXPECT_THAT(placement.ranks_of, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4)));
  EXPECT_THAT(placement.leaders(), ElementsAre(0, 1, 4));
  EXPECT_EQ(placement.host(), 1);
  EXPECT_EQ(placement.local_rank(), 1);
  EXPECT_EQ(placement.local_size(), 2);
  EXPECT_FALSE(placement.in_blocks());
  EXPECT_TRUE(make_placement({7, 7, 3}, 0).in_blocks());
}

// Host 2 has no rank with local rank 1.
TEST(Placement, CrossRanksCountTheHostsWithThisLocalRank) {
  const Topology second = make_placement({0, 1, 0, 1, 2}, 3).topology();
  EXPECT_EQ(second.rank, 3);
  EXPECT_EQ(second.size, 5);
  EXPECT_EQ(second.cross_rank, 1);
  EXPECT_EQ(second.cross_size, 2);
  const Topology last = make_placement({0, 1, 0, 1, 2}, 4).topology();
  EXPECT_EQ(last.local_size, 1);
  EXPECT_EQ(last.cross_rank, 2);
  EXPECT_EQ(last.cross_size, 3);
}

}  // namespace
}  // namespace xoe
