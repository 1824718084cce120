#include "launch/supervise/restart_policy.h"

#include <gtest/gtest.h>

#include <csignal>

namespace xoe::launch {
namespace {

using namespace std::chrono_literals;

TEST(RestartPolicy, RanksThatFailAtOnceWaitLongerAndLonger) {
  RestartPolicy policy(20, true);
  std::chrono::nanoseconds all{0};
  EXPECT_EQ(policy.restart_after(1ms), 100ms);
  EXPECT_EQ(policy.restart_after(1ms), 200ms);
  EXPECT_EQ(policy.restart_after(1ms), 400ms);
  for (int i = 3; i < 20; ++i) {
    const auto pause = policy.restart_after(1ms).value();
    EXPECT_LE(pause, 10s);
    all += pause;
  }
  EXPECT_GT(all, 100s);
  EXPECT_EQ(policy.left(), 0);
  EXPECT_FALSE(policy.restart_after(1h));
}

TEST(RestartPolicy, ARankThatRanForLongIsRestartedAtOnce) {
  RestartPolicy policy(5, true);
  EXPECT_EQ(policy.restart_after(1ms), 100ms);
  EXPECT_EQ(policy.restart_after(1h), 0ms);
  EXPECT_EQ(policy.restart_after(1ms), 100ms);
}

TEST(RestartPolicy, WhatNoRestartMendsIsNotRestarted) {
  for (const int code : {126, 127}) EXPECT_FALSE(RestartPolicy::may_help(W_EXITCODE(code, 0), 1h)) << code;
  EXPECT_FALSE(RestartPolicy::may_help(W_EXITCODE(2, 0), 1s));
  EXPECT_TRUE(RestartPolicy::may_help(W_EXITCODE(2, 0), 11s)) << "its command line was read long before";
  EXPECT_TRUE(RestartPolicy::may_help(W_EXITCODE(1, 0), 1s));
  EXPECT_TRUE(RestartPolicy::may_help(SIGINT, 1s)) << "a signal, not an exit code";
}

TEST(RestartPolicy, NoneMeansNone) { EXPECT_FALSE(RestartPolicy(0, true).restart_after(1h)); }

TEST(RestartPolicy, NoneIsRestartedOnceItWasForbidden) {
  RestartPolicy policy(5, true);
  EXPECT_TRUE(policy.forbid());
  EXPECT_FALSE(policy.forbid());
  EXPECT_FALSE(policy.restart_after(1h));
}

}  // namespace
}  // namespace xoe::launch
