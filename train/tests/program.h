// Runs the real programs, as users do.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/testing/places.h"

namespace xoe::testing {

inline std::string bin(const std::string& name) { return built_command(name); }

inline std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

// A running program; its output goes into files. Killed when it is still there at the end.
class Program {
 public:
  // `environment`: "NAME=value", besides the test's own.
  Program(const std::string& output, std::vector<std::string> command, std::vector<std::string> environment = {})
      : output_(output) {
    std::vector<char*> arguments;
    for (std::string& part : command) arguments.push_back(part.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (std::string& setting : environment) ::putenv(setting.data());
      redirect(STDOUT_FILENO, output_ + ".out");
      redirect(STDERR_FILENO, output_ + ".err");
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
  }
  Program(const Program&) = delete;
  ~Program() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void signal(int number) const { ::kill(pid_, number); }
  pid_t pid() const { return pid_; }
  // From now on its files grow to so many bytes: a full disk.
  void limit_files(rlim_t bytes) const {
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    ASSERT_EQ(::prlimit(pid_, RLIMIT_FSIZE, &limit, nullptr), 0);
  }

  // The exit code, or minus the signal.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string out() const { return file_text(output_ + ".out"); }
  std::string err() const { return file_text(output_ + ".err"); }

  // Waits until the output has `text`; false after a minute or when the program ended without.
  bool wait_for(const std::string& text) const {
    for (int i = 0; i < 6000; ++i) {
      if (out().find(text) != std::string::npos) return true;
      siginfo_t info = {};
      if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_) {
        return out().find(text) != std::string::npos;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  static void redirect(int fd, const std::string& path) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(file, fd);
  }

  std::string output_;
  pid_t pid_ = -1;
};

// A folder of its own for each test.
class ProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "xoe-program-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

}  // namespace xoe::testing
