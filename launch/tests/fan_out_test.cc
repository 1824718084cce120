#include "launch/plan/placement.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace xoe::launch {
namespace {

TEST(FanOut, FewHostsAreReachedFromHere) {
  for (const std::size_t fan_out : {0U, 5U, 64U})
    for (const auto& relay : plan_fan_out(5, fan_out)) EXPECT_FALSE(relay);
  EXPECT_TRUE(plan_fan_out(0, 4).empty());
}

TEST(FanOut, ALevelIsSpreadEvenlyAndInOrder) {
  using Relays = std::vector<std::optional<std::size_t>>;
  const std::optional<std::size_t> here;
  EXPECT_EQ(plan_fan_out(7, 3), (Relays{here, here, here, 0, 0, 1, 2}));
  EXPECT_EQ(plan_fan_out(4, 1), (Relays{here, 0, 1, 2}));
  EXPECT_EQ(plan_fan_out(8, 2), (Relays{here, here, 0, 0, 1, 1, 2, 4}));
}

TEST(FanOut, NobodyReachesMoreThanThat) {
  for (std::size_t fan_out = 1; fan_out <= 9; ++fan_out)
    for (std::size_t hosts = 0; hosts <= 200; ++hosts) {
      const auto relays = plan_fan_out(hosts, fan_out);
      ASSERT_EQ(relays.size(), hosts);
      std::vector<std::size_t> reached(hosts + 1);
      for (std::size_t i = 0; i < hosts; ++i) {
        if (relays[i]) {
          ASSERT_LT(*relays[i], i);
        }
        ++reached[relays[i].value_or(hosts)];
      }
      EXPECT_LE(std::ranges::max(reached), fan_out) << hosts;
    }
}

}  // namespace
}  // namespace xoe::launch
