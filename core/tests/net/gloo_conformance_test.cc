// Gloo over loopback: the net conformance suite, the order of reductions, several nets at a time.
#include <filesystem>
#include <thread>
#include <utility>

#include "core/tests/net/net_conformance.h"
#include "core/tests/net/net_group.h"

namespace xoe::testing {
namespace {

class GlooConformance : public ::testing::TestWithParam<int> {};

TEST_P(GlooConformance, MembersAsThreads) {
  const int size = GetParam();
  const NetGrid grid = net_grid(size);
  run_threads(size, [&](net::Net& net, int member) { EXPECT_EQ(check_net(net, size, member, grid), ""); });
}

TEST_P(GlooConformance, MembersAsProcesses) {
  const int size = GetParam();
  const NetGrid grid{{1, 1000, 100003}, {DType::kFloat32}, {ReduceOp::kSum}};
  NetProcesses group(size, [&](net::Net& net, int member) { return check_net(net, size, member, grid); });
  for (int m = 0; m < size; ++m) EXPECT_EQ(group.wait(m), 0);
}

INSTANTIATE_TEST_SUITE_P(Sizes, GlooConformance, ::testing::Values(1, 2, 3, 4, 7));

// In one message and in several rounds.
TEST(GlooReduction, IsInTheOrderOfRanks) {
  constexpr int kSize = 4;
  const std::vector<std::pair<DType, std::size_t>> cases{{DType::kFloat32, 100},
                                                         {DType::kFloat32, XOE_SANITIZED != 0 ? 700'001 : 3'000'001},
                                                         {DType::kFloat16, XOE_SANITIZED != 0 ? 700'001 : 1'500'001},
                                                         {DType::kBfloat16, 33}};
  run_threads(kSize, [&](net::Net& net, int member) {
    for (const auto& [dtype, count] : cases) EXPECT_EQ(check_rank_order(net, kSize, member, dtype, count), "");
  });
}

TEST(GlooNets, TwoAtTheSameTimeFromTwoThreads) {
  constexpr int kSize = 3;
  ExchangeTable first(kSize), second(kSize);
  std::vector<std::jthread> members;
  for (int m = 0; m < kSize; ++m)
    members.emplace_back([&, m] {
      const auto provider = open_gloo();
      const auto a = connect(*provider, first, kSize, m), b = connect(*provider, second, kSize, m);
      const NetGrid grid{{1, 1000, 100003}, {DType::kInt32}, {ReduceOp::kSum}};
      std::jthread other([&] { EXPECT_EQ(check_net(*b, kSize, m, grid), ""); });
      EXPECT_EQ(check_net(*a, kSize, m, grid), "");
    });
}

std::size_t open_files() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

TEST(GlooNets, AHundredLeaveNothingBehind) {
  constexpr int kTimes = XOE_SANITIZED != 0 ? 50 : 100;
  const auto first = open_gloo(), second = open_gloo();
  std::size_t at_first = 0;
  for (int i = 0; i < kTimes; ++i) {
    ExchangeTable table(2);
    std::jthread peer([&] { EXPECT_TRUE(connect(*second, table, 2, 1)->run({}, in(seconds(30)))); });
    EXPECT_TRUE(connect(*first, table, 2, 0)->run({}, in(seconds(30))));
    peer.join();
    if (i == 0) at_first = open_files();
  }
  EXPECT_EQ(open_files(), at_first);
}

TEST(GlooProvider, TellsWhatItIs) {
  const auto provider = open_gloo();
  EXPECT_EQ(provider->name(), "gloo");
  EXPECT_NE(provider->describe().find("TCP from 127.0.0.1"), std::string::npos) << provider->describe();
  const auto bootstrap = provider->bootstrap();
  ASSERT_FALSE(bootstrap);
  EXPECT_EQ(bootstrap.error().code(), Code::kUnsupported);
}

TEST(GlooProvider, RefusesAnAddressOfAnotherHost) {
  const auto provider = net::open_plugin("gloo", {.address = "192.0.2.1"});
  ASSERT_FALSE(provider);
  EXPECT_EQ(provider.error().code(), Code::kUnavailable);
  EXPECT_NE(provider.error().message().find("192.0.2.1"), std::string::npos);
}

}  // namespace
}  // namespace xoe::testing
