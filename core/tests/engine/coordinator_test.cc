#include "core/engine/negotiate/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/engine/negotiate/op_descriptor.h"
#include "core/tests/engine/coordinator_net.h"

namespace xoe::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> names_of(const std::vector<Decision>& decisions) {
  std::vector<std::string> names;
  for (const Decision& decision : decisions)
    for (const DecidedTensor& tensor : decision.tensors) names.push_back(tensor.name());
  return names;
}

std::string tensor(int i) { return "layer" + std::to_string(i) + ".weight"; }

void step(CoordinatorNet& net, int tensors) {
  for (int i = 0; i < tensors; ++i) net.ready_everywhere(tensor(i));
  net.run();
}

TEST(Coordinator, DecidesWhatAllHostsHave) {
  CoordinatorNet net(3, {.fanout = 2});
  net.at(0).ready("a", 1, "a");
  net.at(1).ready("b", 1, "b");
  net.at(2).ready("b", 1, "b");
  net.at(2).ready("a", 1, "a");
  net.run();
  EXPECT_THAT(net.decided(0), IsEmpty());
  net.at(0).ready("b", 1, "b");
  net.run(77);
  for (int host = 0; host < 3; ++host) {
    EXPECT_THAT(names_of(net.decided(host)), ElementsAre("b"));
    EXPECT_EQ(net.decided(host)[0].knobs, 77U);
    EXPECT_EQ(net.decided(host)[0].tensors[0].text(), "b");
  }
  net.at(1).ready("a", 1, "a");
  net.run();
  EXPECT_THAT(names_of(net.decided(2)), ElementsAre("b", "a"));
}

TEST(Coordinator, OneHostDecidesAlone) {
  CoordinatorNet net(1, {});
  net.at(0).ready("a", 1, "a");
  EXPECT_TRUE(net.at(0).has_ready());
  net.run();
  net.at(0).joined(3);
  net.run();
  ASSERT_EQ(net.decided(0).size(), 2U);
  EXPECT_EQ(net.decided(0)[1].joined, 3);
}

TEST(Coordinator, GathersUntilFlushed) {
  CoordinatorNet net(2, {});
  net.ready_everywhere("a");
  net.post_all();
  net.hop();
  net.ready_everywhere("b");
  net.post_all();
  net.hop();
  EXPECT_TRUE(net.at(0).has_ready());
  net.run();
  ASSERT_EQ(net.decided(1).size(), 1U);
  EXPECT_THAT(names_of(net.decided(1)), ElementsAre("a", "b"));
}

TEST(Coordinator, DifferingArgumentsFailThatTensorAlone) {
  CoordinatorNet net(7, {.fanout = 2});
  for (int host = 0; host < 7; ++host) {
    net.at(host).ready("x", host == 5 ? 2 : 1, host == 5 ? "sum of [3]" : "sum of [4]");
    net.at(host).ready("y", 1, "fine");
    if (host == 3)
      net.at(host).fail_local("z", "rank 6: [1], rank 7: [2]");
    else
      net.at(host).ready("z", 1, "sum of [1]");
  }
  net.run();
  for (int host = 0; host < 7; ++host) {
    std::map<std::string, std::string> errors;
    for (const auto& one : net.decided(host)[0].tensors) errors[one.name()] = one.error;
    EXPECT_THAT(errors["x"], ::testing::AllOf(HasSubstr("host 0: sum of [4]"), HasSubstr("host 5: sum of [3]")));
    EXPECT_EQ(errors["y"], "");
    EXPECT_THAT(errors["z"], ::testing::AllOf(HasSubstr("host 3: rank 6: [1], rank 7: [2]"), HasSubstr("host 0: sum")));
  }
  // Corrected, they work.
  net.ready_everywhere("x");
  net.ready_everywhere("z");
  net.run();
  EXPECT_EQ(net.decided(6).back().tensors.size(), 2U);
  for (const auto& one : net.decided(6).back().tensors) EXPECT_EQ(one.error, "");
}

TEST(Coordinator, KnownNamesCostBits) {
  CoordinatorNet net(3, {.fanout = 2});
  step(net, 1000);
  EXPECT_GT(net.largest, 20000U);
  net.forget_counts();
  for (int i = 0; i < 1000; i += 2) net.ready_everywhere(tensor(i));
  net.run();
  EXPECT_LE(net.largest, 140U);  // a bitmap
  net.forget_counts();
  step(net, 1000);
  EXPECT_LE(net.largest, 20U);  // a run
  EXPECT_EQ(net.at(2).cached(), 1000U);
}

TEST(Coordinator, ANewSignatureIsAgreedUponAlone) {
  CoordinatorNet net(3, {.fanout = 2});
  step(net, 100);
  net.forget_counts();
  for (int i = 0; i < 100; ++i) net.ready_everywhere(tensor(i), i == 42 ? 9 : 1);
  net.run();
  EXPECT_LE(net.largest, 60U);
  const Decision& last = net.decided(1).back();
  EXPECT_EQ(last.tensors.back().name(), tensor(42));
  EXPECT_EQ(last.tensors.back().signature, 9U);
  net.forget_counts();
  for (int i = 0; i < 100; ++i) net.ready_everywhere(tensor(i), i == 42 ? 9 : 1);
  net.run();
  EXPECT_LE(net.largest, 20U);
}

TEST(Coordinator, DepthIsLogarithmic) {
  for (const auto& [hosts, fanout, depth] : {std::tuple(9, 2, 3), {9, 4, 2}, {64, 4, 3}, {65, 1, 64}}) {
    CoordinatorNet net(hosts, {.fanout = fanout});
    for (int round = 0; round < 4; ++round) {
      net.ready_everywhere("a");
      EXPECT_EQ(net.run(), 2 * depth);
    }
  }
}

TEST(Coordinator, AStepCostsEachHostTheSameWhateverTheirNumber) {
  std::vector<std::size_t> most;
  for (const int hosts : {32, 64, 512, 4096}) {
    CoordinatorNet net(hosts, {});
    step(net, 50);
    net.forget_counts();
    step(net, 50);
    ASSERT_EQ(net.decided(hosts - 1).back().tensors.size(), 50U);
    most.push_back(net.most_bytes_of_a_host());
  }
  EXPECT_LE(most.back(), 120U);
  EXPECT_THAT(most, ::testing::Each(most.front())) << "bytes of a step at a host with four below it";
}

TEST(Coordinator, JoinedHostsHaveEverything) {
  CoordinatorNet net(4, {.fanout = 2});
  step(net, 2);
  net.at(1).joined(10);
  net.at(3).joined(30);  // the whole subtree of host 1
  net.run();
  net.at(0).ready("a", 1, "a");
  net.at(2).ready("a", 1, "a");
  net.at(2).ready(tensor(0), 1, "t");
  net.at(0).ready(tensor(0), 1, "t");
  net.run();
  EXPECT_EQ(names_of(net.decided(3)).size(), 4U);
  EXPECT_EQ(net.decided(3).back().tensors.back().text(), "a");
  net.at(0).joined(0);
  net.run();
  net.at(2).joined(22);
  net.run();
  for (int host = 0; host < 4; ++host) EXPECT_EQ(net.decided(host).back().joined, 22);
  step(net, 2);
  EXPECT_EQ(net.decided(3).back().tensors.size(), 2U);
}

TEST(Coordinator, WhatNeedsEveryRankFailsOnceAHostHasJoined) {
  constexpr std::uint64_t kSignature = kNeedsEveryRank | 7;
  for (const int joined : {0, 1, 2, 3}) {  // the root, with and without children, and a leaf of host 1
    for (const bool is_known : {false, true}) {
      CoordinatorNet net(4, {.fanout = 2});
      if (is_known) {
        net.ready_everywhere("a", kSignature);
        net.run();
        EXPECT_EQ(net.decided(0).back().tensors.back().error, "");
      }
      net.at(joined).joined(10);
      net.run();
      for (int host = 0; host < 4; ++host)
        if (host != joined) net.at(host).ready("a", kSignature, "a?");
      net.run();
      for (int host = 0; host < 4; ++host) {
        const DecidedTensor& decided = net.decided(host).back().tensors.back();
        EXPECT_THAT(decided.error, HasSubstr("host " + std::to_string(joined) + ": its ranks have joined"));
        EXPECT_THAT(decided.error, HasSubstr("a?"));
      }
      for (int host = 0; host < 4; ++host)
        if (host != joined) net.at(host).joined(host);
      net.run();
      net.ready_everywhere("a", kSignature);
      net.run();
      EXPECT_EQ(net.decided(3).back().tensors.back().error, "");
    }
  }
}

TEST(Coordinator, ADecisionWithoutAJoinedHostCoversWhatThatHostReportsTooLate) {
  for (const bool told : {false, true}) {
    for (const bool is_known : {false, true}) {
      CoordinatorNet net(2, {});
      if (is_known) step(net, 1);
      net.at(1).joined(5);
      net.run();
      net.at(0).ready(tensor(0), 1, "t");
      net.at(0).flush(0);
      net.post(0);
      net.at(1).ready(tensor(0), 1, "t");
      if (told)
        net.post(1);
      else
        net.deliver({0, 1});
      net.run();
      EXPECT_EQ(names_of(net.decided(1)).size(), is_known ? 2U : 1U);
      net.at(0).joined(0);
      net.run();
      EXPECT_EQ(net.decided(1).back().joined, 0);
      EXPECT_THAT(net.decided(1).back().tensors, IsEmpty());
      // One host's submission does not count for the other.
      net.at(0).ready(tensor(0), 1, "t");
      net.run();
      EXPECT_TRUE(net.decided(0).back().joined);
      net.at(1).ready(tensor(0), 1, "t");
      net.run();
      EXPECT_THAT(names_of({net.decided(1).back()}), ElementsAre(tensor(0)));
    }
  }
}

TEST(Coordinator, ForgetsTheOldestNames) {
  CoordinatorNet net(3, {.fanout = 2, .cache_capacity = 16});
  for (int i = 0; i < 200; ++i) {
    net.ready_everywhere("always");
    net.ready_everywhere(tensor(i));
    // Waits while names are evicted.
    if (i == 100) net.at(2).ready("late", 1, "late");
    if (i == 150) net.at(1).ready("late", 1, "late");
    net.run();
    ASSERT_LE(net.at(2).cached(), 16U);
    ASSERT_EQ(net.at(2).cached(), net.at(0).cached());
  }
  net.at(0).ready("late", 1, "late");
  net.run();
  EXPECT_THAT(net.decided(1).back().tensors[0].name(), "late");
}

TEST(Coordinator, NamesTheHostsThatAreMissing) {
  CoordinatorNet net(7, {.fanout = 2});
  for (const int host : {0, 1, 3, 4, 6}) net.at(host).ready("a", 1, "a");
  net.run();
  EXPECT_THAT(net.at(0).missing_hosts("a"), ElementsAre(2));
  EXPECT_THAT(net.at(2).missing_hosts("a"), ElementsAre(2, 5));
  EXPECT_THAT(net.at(1).missing_hosts("a"), IsEmpty());
  EXPECT_THAT(net.at(1).missing_hosts("never"), IsEmpty());
}

TEST(Coordinator, RejectsInvalidMessages) {
  CoordinatorNet net(3, {.fanout = 2});
  step(net, 3);
  EXPECT_FALSE(net.at(1).receive(2, {}));
  EXPECT_FALSE(net.at(0).receive(1, {}));
  // From then on.
  EXPECT_FALSE(net.at(0).receive(2, {}));
  EXPECT_FALSE(net.at(0).has_ready());
}

TEST(Coordinator, BrokenMessagesAreErrorsOrHarmless) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    CoordinatorNet net(3, {.fanout = 2});
    for (int i = 0; i < round % 4; ++i) step(net, 5);
    for (int i = 0; i < 6; ++i) net.at(1).ready(tensor(i), static_cast<std::uint64_t>(i), "t");
    std::vector<std::byte> message = net.at(1).take_messages()[0].bytes;
    if (random() % 2 == 0) message.resize(random() % message.size());
    for (auto flips = random() % 4; flips > 0 && !message.empty(); --flips)
      message[random() % message.size()] ^= static_cast<std::byte>(1U << (random() % 8));
    (void)net.at(0).receive(1, message);
    (void)net.at(1).receive(0, message);
    net.at(0).flush(0);
    (void)net.at(0).take_messages();
  }
}

}  // namespace
}  // namespace xoe::engine
