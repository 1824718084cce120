// Hosts, GPUs and VMs that are no more give their place to others.
#include <gmock/gmock.h>

#include "pool/core/forget.h"
#include "pool/tests/pool_fixture.h"

namespace xoe::pool::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class Forget : public PoolTest {
 protected:
  explicit Forget(Policy policy = {.waiting_timeout = std::chrono::hours(24)}) : PoolTest(policy) {}
};

// Nodes that come once, as a cloud has them.
TEST_F(Forget, HostsThatAreGoneMakeRoom) {
  for (int i = 0; i < 200; ++i) {
    now_ += std::chrono::hours(1);
    turn([&] {
      const auto told = pool_.report(report_of_instances("node" + std::to_string(i), 0, 8));
      ASSERT_TRUE(told || i > 127) << told.error().message();
      if (i >= 150) {
        ASSERT_TRUE(told) << i << ": " << told.error().message();
      }
    });
  }
  EXPECT_LE(pool_.state().gpus.size(), kMaxGpus);
}

// Their GPUs are of no use for room, but their names are.
TEST_F(Forget, HostsWithoutGpusThatAreGoneMakeRoomForOthers) {
  const auto report = [&](const std::string& host) {
    Status told;
    turn([&] { told = pool_.report({.host = host, .without = "no driver"}); });
    return told ? std::string() : told.error().message();
  };
  now_ += std::chrono::hours(1);
  turn([&] { ASSERT_TRUE(pool_.report(report_of("needed", 1))); });
  const auto id = acquire(ann_, {.gpus = 1, .host = "needed", .duration = std::chrono::hours(71)}).value();
  now_ += minutes(5);
  turn([&] {
    for (std::size_t i = pool_.state().hosts.size(); i < kMaxHosts; ++i)
      ASSERT_TRUE(pool_.report({.host = fmt::format("pod-{:04}", i), .without = "no driver"}));
  });
  EXPECT_THAT(report("one-more"), HasSubstr("room for 4096 hosts"));
  now_ += std::chrono::hours(24) - minutes(1);
  EXPECT_EQ(report("one-more"), "");
  EXPECT_THAT(pool_.state().hosts, SizeIs(kMaxHosts));
  EXPECT_FALSE(pool_.state().hosts.contains("a")) << "it has been silent for longest";
  EXPECT_TRUE(pool_.state().hosts.contains("needed")) << "lease " << id;
  EXPECT_TRUE(pool_.state().hosts.contains("pod-4095")) << "it is given a day";
  now_ += minutes(5);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(report(fmt::format("next-{}", i)), "");
  ASSERT_TRUE(pool_.abandon());
  EXPECT_THAT(pool_.state().hosts, SizeIs(kMaxHosts)) << "the database forgets, too";
  EXPECT_TRUE(pool_.state().hosts.contains("needed"));
  const auto events = pool_.store().events(0, 20000).value();
  EXPECT_EQ(std::ranges::count(events, "host-forgotten", &Event::kind), 21);
}

TEST_F(Forget, VmsOfAVCenterThatIsGoneMakeRoom) {
  const auto report = [&](const std::string& host, const std::string& vm, std::size_t count) {
    HostReport told{.host = host};
    for (std::size_t i = 0; i < count; ++i) told.vms.push_back({.name = fmt::format("{}-{}", vm, i), .host = host});
    Status done;
    turn([&] { done = pool_.report(told); });
    return done ? std::string() : done.error().message();
  };
  for (const char* const center : {"v1", "v2", "v3", "v4"}) ASSERT_EQ(report(center, center, kMaxVms / 4), "");
  EXPECT_THAT(report("v5", "v5", 1), HasSubstr("room for 16384 VMs"));
  now_ += std::chrono::hours(25);
  for (const char* const center : {"v2", "v3", "v4"}) ASSERT_EQ(report(center, center, kMaxVms / 4), "");
  EXPECT_EQ(report("v5", "v5", 1), "");
  EXPECT_FALSE(pool_.state().hosts.contains("v1"));
}

class ForgetOfSlowReports : public Forget {
 protected:
  ForgetOfSlowReports() : Forget({.host_timeout = std::chrono::hours(12)}) {}
};

// The database has the time at which a host came online, which may be long ago.
TEST_F(ForgetOfSlowReports, HostsAreGivenTimeAfterAServerWasAway) {
  const auto m = report_of_instances("m", 0, 600), n = report_of_instances("n", 0, 600);
  for (int i = 0; i < 4; ++i) {
    turn([&] { ASSERT_TRUE(pool_.report(m)); });
    now_ += std::chrono::hours(10);
  }
  pool_ = after_restart();
  turn([&] { EXPECT_FALSE(pool_.report(n)) << "the GPUs of m stay for a day"; });
  now_ += std::chrono::hours(23);
  turn([&] { EXPECT_FALSE(pool_.report(n)); });
  EXPECT_TRUE(pool_.state().gpus.contains("MIG-m-0"));
  now_ += std::chrono::hours(2);
  turn([&] { EXPECT_TRUE(pool_.report(n)) << "m is gone"; });
}

TEST_F(Forget, InstancesOfManyRestartsMakeRoom) {
  for (int round = 0; round < 17; ++round)
    turn([&] {
      const auto told = pool_.report(report_of_instances("m", 600 * round, 600));
      ASSERT_TRUE(told) << told.error().message();
    });
  EXPECT_THAT(pool_.state().gpus, SizeIs(604)) << "those of host a, and the last ones";
  const auto id = acquire(ann_, {.gpus = 1, .host = "m"}).value();
  EXPECT_THAT(lease(id).gpus, SizeIs(1));
  ASSERT_TRUE(pool_.abandon());
  EXPECT_THAT(pool_.state().gpus, SizeIs(604)) << "the database forgets, too";
}

TEST_F(Forget, AGpuThatALeaseNeedsIsKept) {
  turn([&] { ASSERT_TRUE(pool_.report(report_of_instances("m", 0, 600))); });
  const auto id = acquire(ann_, {.gpus = 1, .host = "m"}).value();
  const std::string held = lease(id).gpus.at(0);
  turn([&] { ASSERT_TRUE(pool_.report(report_of_instances("m", 600, 600))); });
  EXPECT_THAT(pool_.state().gpus, SizeIs(605));
  EXPECT_TRUE(pool_.state().gpus.contains(held));
}

TEST_F(Forget, WhatHasComeTogetherIsLimited) {
  turn([&] { ASSERT_TRUE(pool_.report(report_of_instances("m", 0, 600))); });
  turn([&] {
    const auto refused = pool_.report(report_of_instances("n", 0, 600));
    ASSERT_FALSE(refused) << "600 of an online host cannot be forgotten";
    EXPECT_THAT(refused.error().message(), HasSubstr("room for 1024 GPUs, and this would be 1204"));
  });
  EXPECT_THAT(pool_.state().gpus, SizeIs(604));
}

TEST_F(Forget, AnOldDatabaseWithTooManyGpusStillServes) {
  turn([&] { ASSERT_TRUE(pool_.report(report_of_instances("m", 0, 600))); });
  for (int i = 0; i < 600; ++i) {
    Gpu gpu = gpu_named("m", 5000 + i);
    gpu.uuid = "MIG-0-" + std::to_string(i);  // before the others, by name
    ASSERT_TRUE(pool_.store().save(gpu));
  }
  ASSERT_TRUE(pool_.abandon());
  ASSERT_THAT(pool_.state().gpus, SizeIs(1204));
  const auto id = acquire(ann_, {.gpus = 2, .host = "m"}).value();
  EXPECT_THAT(lease(id).gpus, SizeIs(2));
  EXPECT_THAT(lease(id).gpus.at(0), HasSubstr("MIG-m-"));
}

TEST_F(Forget, AGpuThatIsMissingForADayIsForgotten) {
  const auto without_one = [](HostReport& report) {
    report.gpus.pop_back();
    report.activity.pop_back();
  };
  pass(std::chrono::hours(23), without_one);
  EXPECT_TRUE(pool_.state().gpus.contains("GPU-a3"));
  pass(std::chrono::hours(2), without_one);
  EXPECT_FALSE(pool_.state().gpus.contains("GPU-a3"));
  EXPECT_THAT(events(0), ::testing::Contains("gpu-forgotten"));
  pass(seconds(30));
  EXPECT_TRUE(pool_.state().gpus.contains("GPU-a3"));
}

TEST_F(Forget, AHostThatIsGoneCanBeForgotten) {
  turn([&] { ASSERT_TRUE(pool_.report(report_of("b", 2))); });
  const auto id = acquire(ann_, {.gpus = 1, .host = "b"}).value();
  const auto forget = [&](const std::string& host) {
    Status done;
    turn([&] { done = pool_.forget_host(admin_, host); });
    return done ? std::string() : done.error().message();
  };
  EXPECT_EQ(forget("c"), "there is no host c");
  EXPECT_THAT(forget("b"), HasSubstr("it is online"));
  pass(minutes(5));
  EXPECT_THAT(forget("b"), HasSubstr("lease 1 of ann needs GPU-b"));
  turn([&] { ASSERT_TRUE(pool_.release(ann_, id, token_number(1), "done")); });
  EXPECT_EQ(forget("b"), "");
  ASSERT_TRUE(pool_.abandon());
  EXPECT_FALSE(pool_.state().hosts.contains("b"));
  EXPECT_THAT(pool_.state().gpus, SizeIs(4));
}

}  // namespace
}  // namespace xoe::pool::testing
