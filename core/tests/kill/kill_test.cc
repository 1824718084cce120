// Random ranks, and the launcher itself, are killed at random moments of a tight loop: no rank hangs, every
// survivor names the right rank within a second, no process is left behind.
#include <signal.h>

#include <cstdio>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "core/testing/places.h"
#include "core/testing/told_within.h"
#include "core/tests/kill/job.h"

namespace xoe::testing {
namespace {

constexpr int kRanks = 3;

using Command = std::vector<std::string>;
const std::vector<Command> kCollectives = {{"kill_worker", "1", "private"},
                                           {"kill_worker", "1000", "private"},
                                           {"kill_worker", "3000000", "private"},
                                           {"kill_worker", "3000000", "shared"}};
const std::vector<Command> kEngineWork = {{"engine_worker", "blocking"}, {"engine_worker", "async"},
                                          {"engine_worker", "threads"},  {"engine_worker", "callbacks"},
                                          {"engine_worker", "sets"},     {"engine_worker", "kinds"}};

// The pids that the ranks print when their group has formed.
std::vector<pid_t> wait_until_ready(Job& job) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto line = job.read_until("] ready " + std::to_string(rank) + " ", 30);
    int shown_rank = 0, pid = 0;
    if (std::sscanf(line.c_str(), "[%*d] ready %d %d", &shown_rank, &pid) != 2) return {};
    pids.push_back(pid);
  }
  return pids;
}

void pause_up_to(std::mt19937& random, int microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(microseconds)));
}

// Kills a random rank of each round's job at a random moment.
void expect_survivors_told(const std::vector<Command>& commands, int rounds) {
  std::mt19937 random(20261121);
  const auto before = files_in_dev_shm();
  double slowest = 0;
  for (int round = 0; round < rounds; ++round) {
    Command command = commands[static_cast<unsigned>(round) % commands.size()];
    SCOPED_TRACE("round " + std::to_string(round) + " " + command[0] + " " + command[1]);
    command[0] = built_file(command[0]);
    Job job(kRanks, command);
    const auto pids = wait_until_ready(job);
    ASSERT_EQ(pids.size(), static_cast<std::size_t>(kRanks)) << job.output();
    const int victim = static_cast<int>(random() % kRanks);
    pause_up_to(random, 10'000);
    const double killed = now_seconds();
    ASSERT_EQ(::kill(pids[static_cast<std::size_t>(victim)], SIGKILL), 0);
    ASSERT_TRUE(job.read_all(30)) << "hang: " << job.output();
    EXPECT_EQ(job.wait(), 128 + SIGKILL) << job.output();
    const auto expected = "rank " + std::to_string(victim) + " (pid " +
                          std::to_string(pids[static_cast<std::size_t>(victim)]) + ") ended";
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      double at = 0;
      std::string told;
      for (const auto& line : job.lines_of(rank))
        if (std::sscanf(line.c_str(), "failed %lf", &at) == 1) told = line;
      EXPECT_EQ(job.output().find("a later submission was accepted"), std::string::npos);
      ASSERT_NE(told.find("peer_lost"), std::string::npos) << "rank " << rank << ": " << job.output();
      ASSERT_NE(told.find(expected), std::string::npos) << expected << ": " << told;
      EXPECT_LT(at - killed, told_within()) << told;
      slowest = std::max(slowest, at - killed);
    }
    ASSERT_TRUE(job.left_after(10).empty()) << "processes left behind";
  }
  EXPECT_EQ(files_in_dev_shm(), before);
  std::printf("slowest survivor was told after %.1f ms\n", slowest * 1e3);
}

TEST(Kill, EverySurvivorNamesTheDeadRankWithinASecond) {
  expect_survivors_told(kCollectives, kill_rounds(XOE_SANITIZED != 0 ? 20 : 200));
}

TEST(Kill, InTheMiddleOfEngineWorkToo) {
  expect_survivors_told(kEngineWork, kill_rounds(XOE_SANITIZED != 0 ? 12 : 60));
}

// The start timeout is a minute.
TEST(Kill, ARankThatEndsWellBeforeItJoinsIsNamed) {
  Job job(kRanks, {"bash", "-c", "[ $XOE_RANK = 1 ] && exit 0; exec " + built_file("kill_worker 1 private")});
  ASSERT_TRUE(job.read_all(30)) << "hang: " << job.output();
  EXPECT_EQ(job.wait(), 4) << job.output();
  EXPECT_NE(job.output().find("rank 1 exited with code 0, before it joined the others"), std::string::npos)
      << job.output();
}

TEST(Kill, NothingIsLeftWhenTheLauncherIsKilled) {
  std::mt19937 random(42);
  const auto before = files_in_dev_shm();
  for (int round = 0, rounds = kill_rounds(XOE_SANITIZED != 0 ? 8 : 50); round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    // Each rank is a shell that ignores SIGTERM, and its child does so too.
    const auto worker = built_file("kill_worker 1000 private");
    Job job(kRanks, {"bash", "-c", "trap '' TERM; " + worker + " & wait"});
    const bool early = round % 4 == 0;  // while it is still starting
    if (!early) {
      ASSERT_EQ(wait_until_ready(job).size(), static_cast<std::size_t>(kRanks)) << job.output();
    }
    pause_up_to(random, early ? 30'000 : 3'000);
    ::kill(job.launcher(), SIGKILL);
    job.wait();
    ASSERT_TRUE(job.left_after(10).empty()) << "processes left behind";
  }
  EXPECT_EQ(files_in_dev_shm(), before);
}

}  // namespace
}  // namespace xoe::testing
