#include "core/base/process_activity.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

namespace xoe {
namespace {

using namespace std::chrono_literals;

// A child that starts a process that computes, and waits for it.
struct Family {
  Family() {
    pid = ::fork();
    if (pid != 0) return;
    ::setpgid(0, 0);
    if (::fork() == 0)
      for (std::atomic<unsigned> turn = 0;; ++turn) {
      }
    while (true) ::pause();
  }
  ~Family() {
    ::setpgid(pid, pid);
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  pid_t pid;
};

TEST(ProcessActivity, CountsDescendantsAndSeesStops) {
  const Family family;
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (process_activity(family.pid).value().used < 50ms && std::chrono::steady_clock::now() < until) ::usleep(1000);
  EXPECT_GE(process_activity(family.pid).value().used, 50ms);
  EXPECT_FALSE(process_activity(family.pid).value().stopped);
  ::kill(family.pid, SIGSTOP);
  ::waitpid(family.pid, nullptr, WUNTRACED);
  EXPECT_TRUE(process_activity(family.pid).value().stopped);
}

// A rank that starts one program after the other has used the time of all of them.
TEST(ProcessActivity, CountsChildrenThatHaveEnded) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (::fork() == 0) {
      rusage used = {};
      do ::getrusage(RUSAGE_SELF, &used);
      while (used.ru_utime.tv_sec == 0 && used.ru_utime.tv_usec + used.ru_stime.tv_usec < 60000);
      ::_exit(0);
    }
    ::wait(nullptr);
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(pid, nullptr, WUNTRACED), pid);
  EXPECT_GE(process_activity(pid).value().used, 40ms);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

TEST(ProcessActivity, OfNoProcess) {
  EXPECT_FALSE(process_activity(0));
  EXPECT_FALSE(process_activity(1 << 30));
}

}  // namespace
}  // namespace xoe
