// A launcher at a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "core/base/fd.h"
#include "launch/tests/launched.h"

namespace xoe::launch {
namespace {

using testing::HasSubstr;

// A shell at a new terminal.
class Terminal : public testing::Test {
 protected:
  void start(const std::string& command) {
    int terminal = -1;
    pid_ = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      ::execl("/bin/bash", "bash", "--norc", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    terminal_ = Fd(terminal);
  }

  void type(const std::string& keys) {
    ASSERT_EQ(::write(terminal_.get(), keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }

  bool sees(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (seen_.find(text) == std::string::npos && std::chrono::steady_clock::now() < deadline) {
      pollfd entry{.fd = terminal_.get(), .events = POLLIN, .revents = 0};
      ::poll(&entry, 1, 100);
      std::array<char, 4096> chunk;
      const auto count = entry.revents != 0 ? ::read(terminal_.get(), chunk.data(), chunk.size()) : 0;
      if (count > 0) seen_.append(chunk.data(), static_cast<std::size_t>(count));
      if (count < 0) break;  // the other side closed it
    }
    return seen_.find(text) != std::string::npos;
  }

  ~Terminal() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  pid_t pid_ = -1;
  Fd terminal_;
  std::string seen_;
};

TEST_F(Terminal, TypingReachesRank0AndCtrlCAll) {
  start(xoe_path() +
        " run -np 2 bash -c 'echo up; while read -r line; do echo got $line; done; echo end; sleep 100'; echo code $?");
  ASSERT_TRUE(sees("[1]\x1b[0m end"));  // its stdin is empty
  type("hello\n");
  EXPECT_TRUE(sees("[0]\x1b[0m got hello")) << seen_;
  type("\x04");  // ^D
  EXPECT_TRUE(sees("[0]\x1b[0m end")) << seen_;
  type("\x03");  // ^C
  EXPECT_TRUE(sees("code 130")) << seen_;
  EXPECT_THAT(seen_, HasSubstr("ended by SIGINT"));
}

TEST_F(Terminal, ABackgroundJobTakesNoInput) {
  start("set -m; " + xoe_path() +
        " run -np 1 bash -c 'echo up; read -r line; echo got $line' & sleep 0.5; read -r line; echo shell $line; fg");
  ASSERT_TRUE(sees("[0]\x1b[0m up"));
  type("first\n");
  EXPECT_TRUE(sees("shell first")) << seen_;
  type("second\n");
  EXPECT_TRUE(sees("got second")) << seen_;
}

TEST_F(Terminal, CtrlZStopsAndFgContinues) {
  start("set -m; " + xoe_path() +
        " run -np 1 bash -c 'trap \"echo resumed\" CONT; echo up; while true; do sleep 0.05; done'; echo stopped $?; "
        "fg; echo ended $?");
  ASSERT_TRUE(sees("[0]\x1b[0m up"));
  type("\x1a");  // ^Z
  EXPECT_TRUE(sees("stopped 1")) << seen_;
  ASSERT_TRUE(sees("[0]\x1b[0m resumed")) << seen_;  // the word alone stands in the shell's own line too
  type("\x03");
  EXPECT_TRUE(sees("ended 130")) << seen_;
}

}  // namespace
}  // namespace xoe::launch
