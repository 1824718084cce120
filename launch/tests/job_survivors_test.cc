// No process of a job survives, whichever of its processes is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>

#include "launch/tests/launched.h"

namespace xoe::launch {
namespace {

// A rank with children in its group, in a group and session of their own, orphaned ones, and ones that ignore signals.
const char* const kFamily =
    "trap '' TERM INT HUP; (sleep 100; true) & setsid bash -c 'trap \"\" TERM; sleep 100; true' & "
    "(setsid sleep 100 & exec sleep 0.01); python3 -c 'import time; time.sleep(100)' & echo ready; sleep 100; true";

std::string name_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

TEST(JobSurvivors, NoneWhenTheLauncherIsKilled) {
  for (int round = 0; round < 5; ++round) {
    Launched job(script_arguments(2, kFamily));
    ASSERT_TRUE(both_ready(job));
    EXPECT_GE(job.processes().size(), 8U);
    job.signal(SIGKILL);
    EXPECT_TRUE(job.all_gone(std::chrono::seconds(5)));
    EXPECT_EQ(job.wait().code, 137);
  }
}

TEST(JobSurvivors, NoneWhenTheLauncherIsKilledWhileItStarts) {
  for (int round = 0; round < 40; ++round) {
    Launched job(script_arguments(4, "sleep 100; true"));
    std::this_thread::sleep_for(std::chrono::microseconds(500 * round));
    job.signal(SIGKILL);
    ASSERT_TRUE(job.all_gone(std::chrono::seconds(5))) << round;
  }
}

TEST(JobSurvivors, NoneWhenTheSupervisorIsKilled) {
  Launched job(script_arguments(2, kFamily));
  ASSERT_TRUE(both_ready(job));
  const auto processes = job.processes();
  const auto supervisor = std::ranges::find(processes, "xoe-supervisor", &name_of);
  ASSERT_NE(supervisor, processes.end());
  ::kill(*supervisor, SIGKILL);
  const auto ran = job.wait();
  EXPECT_EQ(ran.code, 125);
  EXPECT_THAT(ran.err, testing::HasSubstr("the supervisor process of the ranks on host"));
  EXPECT_TRUE(job.all_gone());
}

TEST(JobSurvivors, NoneWhenARankFails) {
  Launched job(script_arguments(2, std::string("if [ $XOE_RANK = 1 ]; then sleep 0.5; kill -9 $$; fi; ") + kFamily,
                                {"--grace", "0.2"}));
  EXPECT_EQ(job.wait().code, 137);
  EXPECT_TRUE(job.all_gone(std::chrono::milliseconds(100)));
}

TEST(JobSurvivors, NoneWhenProcessesKeepForking) {
  Launched job(script_arguments(2, "echo ready; while true; do (setsid sleep 0.3 &); sleep 0.01; done"));
  ASSERT_TRUE(both_ready(job));
  job.signal(SIGKILL);
  EXPECT_TRUE(job.all_gone(std::chrono::seconds(5)));
}

}  // namespace
}  // namespace xoe::launch
