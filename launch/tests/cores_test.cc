#include "launch/plan/cores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/testing/scratch.h"

namespace xoe::launch {
namespace {

using testing::ElementsAre;

TEST(Cores, CpuLists) {
  EXPECT_THAT(parse_cpu_list("0-3,8").value(), ElementsAre(0, 1, 2, 3, 8));
  EXPECT_THAT(parse_cpu_list("5").value(), ElementsAre(5));
  for (const char* bad : {"", "a", "3-1", "1-", "-1", "0,,1", "99999"}) EXPECT_FALSE(parse_cpu_list(bad)) << bad;
}

TEST(Cores, CpuListsAsText) {
  EXPECT_EQ(cpu_list_text({}), "");
  EXPECT_EQ(cpu_list_text({0, 4, 1, 5}), "0-1,4-5");
  EXPECT_EQ(cpu_list_text({7}), "7");
}

// Two sockets of two cores with two threads each, numbered as Linux does: the second threads last.
class TwoSockets : public testing::Test {
 protected:
  TwoSockets() {
    for (int cpu = 0; cpu < 8; ++cpu) {
      const auto folder = std::filesystem::path(sysfs_) / ("cpu" + std::to_string(cpu)) / "topology";
      std::filesystem::create_directories(folder);
      std::ofstream(folder / "thread_siblings_list") << cpu % 4 << "," << cpu % 4 + 4 << "\n";
      std::ofstream(folder / "physical_package_id") << cpu % 4 / 2 << "\n";
    }
  }

  std::vector<std::vector<int>> shares(std::vector<int> allowed, int ranks, Binding binding) {
    return share_cores(read_cores(allowed, sysfs_).value(), ranks, binding).value();
  }

  const Scratch scratch_;
  const std::string& sysfs_ = scratch_.path();
  const std::vector<int> all_{0, 1, 2, 3, 4, 5, 6, 7};
};

TEST_F(TwoSockets, AreRead) {
  const auto cores = read_cores(all_, sysfs_).value();
  ASSERT_EQ(cores.size(), 4U);
  EXPECT_THAT(cores[1].cpus, ElementsAre(1, 5));
  EXPECT_EQ(cores[1].socket, 0);
  EXPECT_EQ(cores[3].socket, 1);
  EXPECT_FALSE(read_cores({0}, "/no/such/folder"));
}

TEST_F(TwoSockets, CoresAreShared) {
  EXPECT_THAT(shares(all_, 4, Binding::kCore),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6), ElementsAre(3, 7)));
  EXPECT_THAT(shares(all_, 2, Binding::kCore), ElementsAre(ElementsAre(0, 4, 1, 5), ElementsAre(2, 6, 3, 7)));
  EXPECT_THAT(shares(all_, 3, Binding::kCore), ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6)));
  EXPECT_FALSE(share_cores(read_cores(all_, sysfs_).value(), 5, Binding::kCore));
}

TEST_F(TwoSockets, OnlyAllowedCpusAreUsed) {
  EXPECT_THAT(shares({1, 2, 5}, 2, Binding::kCore), ElementsAre(ElementsAre(1, 5), ElementsAre(2)));
}

TEST_F(TwoSockets, SocketsAreShared) {
  const auto rank = shares(all_, 4, Binding::kSocket);
  EXPECT_THAT(rank[0], ElementsAre(0, 4, 1, 5));
  EXPECT_EQ(rank[0], rank[1]);
  EXPECT_THAT(rank[2], ElementsAre(2, 6, 3, 7));
  EXPECT_THAT(shares(all_, 1, Binding::kSocket)[0], ElementsAre(0, 4, 1, 5));
}

TEST_F(TwoSockets, NoneBindsNobody) {
  EXPECT_THAT(shares(all_, 2, Binding::kNone), ElementsAre(ElementsAre(), ElementsAre()));
}

TEST(Cores, ThisHostHasSome) {
  const auto cpus = allowed_cpus().value();
  ASSERT_FALSE(cpus.empty());
  EXPECT_GE(usable_cores(cpus.size()), 1);
}

std::vector<CpuCore> two_sockets() {
  // Socket 0 is near memories 0 and 1, socket 1 near 2 and 3; two cores each.
  std::vector<CpuCore> cores;
  for (int i = 0; i < 8; ++i) cores.push_back({.cpus = {i}, .socket = i / 4, .numa = i / 2});
  return cores;
}

TEST(Cores, SocketsByTurns) {
  using Shares = std::vector<std::vector<int>>;
  EXPECT_EQ(share_cores(two_sockets(), 4, Binding::kCore, false).value(), (Shares{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(share_cores(two_sockets(), 4, Binding::kCore, true).value(), (Shares{{0, 1}, {4, 5}, {2, 3}, {6, 7}}));
  EXPECT_EQ(share_cores(two_sockets(), 3, Binding::kCore, true).value(), (Shares{{0, 1}, {4, 5}, {2, 3}}));
  EXPECT_EQ(share_cores(two_sockets(), 2, Binding::kCore, true).value(), (Shares{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(share_cores(two_sockets(), 3, Binding::kSocket, true).value(),
            (Shares{{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 1, 2, 3}}));
}

TEST(Cores, BindsToMemories) {
  using Shares = std::vector<std::vector<int>>;
  EXPECT_EQ(share_cores(two_sockets(), 4, Binding::kNuma).value(), (Shares{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(share_cores(two_sockets(), 2, Binding::kNuma).value(), (Shares{{0, 1}, {4, 5}}));
}

}  // namespace
}  // namespace xoe::launch
