// A random rank, and the launcher, are killed at a random moment of a training: every survivor names the right rank
// within a second, nothing hangs, nothing is left behind.
#include <signal.h>

#include <filesystem>
#include <memory>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "core/testing/places.h"
#include "core/testing/scratch.h"
#include "core/testing/told_within.h"
#include "core/tests/kill/job.h"

namespace xoe::testing {
namespace {

constexpr int kRanks = 3;

class TrainKill : public ::testing::Test {
 protected:
  TrainKill() { std::filesystem::create_directories(run_dir_); }
  ~TrainKill() override { std::filesystem::remove_all(run_dir_); }

  // A training without end; it has taken a few steps.
  std::unique_ptr<Job> start(int round) {
    static const std::vector<std::vector<std::string>> kVariants{
        {"mlp"}, {"mlp", "--sharded"}, {"mlp", "--accumulate", "2"}, {"resnet18"}};
    std::vector<std::string> command{built_command("xoe-train"),
                                     "--synthetic",
                                     "--image-size",
                                     "16",
                                     "--classes",
                                     "10",
                                     "--batch",
                                     "4",
                                     "--steps",
                                     "9999999",
                                     "--run-dir",
                                     run_dir_ + "/" + std::to_string(round),
                                     "--threads",
                                     "1",
                                     "--model"};
    const auto& variant = kVariants[static_cast<unsigned>(round) % kVariants.size()];
    command.insert(command.end(), variant.begin(), variant.end());
    auto job = std::make_unique<Job>(kRanks, command);
    EXPECT_NE(job->read_until("images/s ", 60), "") << "it does not train: " << job->output();
    return job;
  }

  void pause() { std::this_thread::sleep_for(std::chrono::microseconds(random_() % 60'000)); }

  const Scratch scratch_;
  const std::string run_dir_ = scratch_.file("run");
  std::mt19937 random_{20261121};
};

TEST_F(TrainKill, EverySurvivorNamesTheDeadRankWithinASecond) {
  const auto before = files_in_dev_shm();
  double slowest = 0;
  for (int round = 0, rounds = kill_rounds(4); round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto job = start(round);
    ASSERT_FALSE(HasFailure());
    const int victim = static_cast<int>(random_() % kRanks);
    const pid_t pid = job->rank_pid(victim);
    ASSERT_GT(pid, 0) << job->output();
    pause();
    const double killed = now_seconds();
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
    const auto expected = "rank " + std::to_string(victim) + " (pid " + std::to_string(pid) + ") ended";
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const auto told = job->read_until("[" + std::to_string(rank) + "] error: ", 30);
      ASSERT_NE(told.find("peer_lost"), std::string::npos) << "rank " << rank << ": " << job->output();
      EXPECT_NE(told.find(expected), std::string::npos) << expected << ": " << told;
      slowest = std::max(slowest, now_seconds() - killed);
      EXPECT_LT(now_seconds() - killed, told_within()) << told;
    }
    ASSERT_TRUE(job->read_all(30)) << "hang: " << job->output();
    EXPECT_EQ(job->wait(), 128 + SIGKILL) << job->output();
    ASSERT_TRUE(job->left_after(10).empty()) << "processes left behind";
  }
  EXPECT_EQ(files_in_dev_shm(), before);
  std::printf("slowest survivor was told after %.1f ms\n", slowest * 1e3);
}

TEST_F(TrainKill, NothingIsLeftWhenTheLauncherIsKilled) {
  const auto before = files_in_dev_shm();
  for (int round = 0, rounds = kill_rounds(4); round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const auto job = start(round);
    ASSERT_FALSE(HasFailure());
    pause();
    ASSERT_EQ(::kill(job->launcher(), SIGKILL), 0);
    job->wait();
    ASSERT_TRUE(job->left_after(10).empty()) << "processes left behind";
  }
  EXPECT_EQ(files_in_dev_shm(), before);
}

}  // namespace
}  // namespace xoe::testing
