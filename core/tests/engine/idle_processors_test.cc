#include "core/engine/buckets/idle_processors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/testing/scratch.h"

namespace xoe::engine {
namespace {

using namespace std::chrono_literals;

// A machine of four processors, of which this process may use the last two.
class FourProcessors {
 public:
  FourProcessors() { std::filesystem::create_directory(scratch_.file("proc")); }

  // Ticks that all processors have been busy and idle since it started, those of the first two apart.
  bool mostly_idle(int busy, int idle, int idle_elsewhere = 0) {
    used_ += used_in_a_look_;
    std::ofstream file(scratch_.file("proc/stat"));
    file << "cpu  1 2 3 4 5 6 7 8 9 10\n";
    for (int cpu = 0; cpu < 4; ++cpu) {
      const int resting = cpu < 2 ? idle_elsewhere : idle;
      file << "cpu" << cpu << " " << busy << " 0 0 " << resting << " 0 0 0 0 0 0\n";
    }
    file << "intr 123 4 5\n";
    file.close();
    return processors_.mostly(now_ += 2s);
  }
  void use_in_each_look(double seconds) { used_in_a_look_ = seconds; }
  bool soon_after() { return processors_.mostly(now_ + 1ms); }

 private:
  static cpu_set_t last_two() {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(2, &set);
    CPU_SET(3, &set);
    return set;
  }

  Scratch scratch_;
  double used_ = 0, used_in_a_look_ = 4;  // two processors' time
  IdleProcessors processors_{last_two(), scratch_.path(), [this] { return used_; }};
  IdleProcessors::Clock::time_point now_{1s};
};

TEST(IdleProcessors, OneLookSaysNothing) {
  FourProcessors machine;
  EXPECT_FALSE(machine.mostly_idle(0, 1000));
  EXPECT_TRUE(machine.mostly_idle(0, 1100));
}

TEST(IdleProcessors, HalfOfTheTimeBeginsIt_LessThanAQuarterEndsIt) {
  FourProcessors machine;
  machine.mostly_idle(1000, 1000);
  EXPECT_FALSE(machine.mostly_idle(1060, 1040));
  EXPECT_TRUE(machine.mostly_idle(1110, 1090));
  EXPECT_TRUE(machine.mostly_idle(1180, 1120));
  EXPECT_FALSE(machine.mostly_idle(1260, 1140));
}

TEST(IdleProcessors, OthersDoNotCount) {
  FourProcessors machine;
  machine.mostly_idle(1000, 1000, 1000);
  EXPECT_FALSE(machine.mostly_idle(1100, 1000, 9000));
}

TEST(IdleProcessors, AProcessThatMostlySleepsHasTimeThoughOthersDoNot) {
  FourProcessors machine;
  machine.use_in_each_look(0.9);  // of two seconds
  machine.mostly_idle(1000, 1000);
  EXPECT_TRUE(machine.mostly_idle(1200, 1000));
  machine.use_in_each_look(1.4);
  EXPECT_TRUE(machine.mostly_idle(1400, 1000));
  machine.use_in_each_look(1.6);
  EXPECT_FALSE(machine.mostly_idle(1600, 1000));
  machine.use_in_each_look(1.1);
  EXPECT_FALSE(machine.mostly_idle(1800, 1000));
}

TEST(IdleProcessors, TheLastLookCountsForASecond) {
  FourProcessors machine;
  machine.mostly_idle(1000, 1000);
  EXPECT_TRUE(machine.mostly_idle(1000, 1100));
  EXPECT_TRUE(machine.soon_after());
}

TEST(IdleProcessors, ACounterThatWentBackSaysNothing) {
  FourProcessors machine;
  machine.mostly_idle(1000, 5000);
  EXPECT_FALSE(machine.mostly_idle(2000, 4000));
}

TEST(IdleProcessors, AMachineThatDoesNotTellIsBusy) {
  cpu_set_t all;
  CPU_ZERO(&all);
  CPU_SET(0, &all);
  double used = 0;
  IdleProcessors processors(all, "/nowhere", [&used] { return used += 4; });
  EXPECT_FALSE(processors.mostly(IdleProcessors::Clock::time_point{1s}));
  EXPECT_FALSE(processors.mostly(IdleProcessors::Clock::time_point{5s}));
}

}  // namespace
}  // namespace xoe::engine
