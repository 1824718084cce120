// Runs the real `xoe` and checks for processes that it leaves.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/fd.h"

namespace xoe::launch {

std::string xoe_path();

struct Finished {
  int code = -1;  // 128 + signal when it was killed
  std::string out;
  std::string err;
};

// One run of `xoe`, its output collected by threads. Carries a mark in its environment, by which all
// processes of the job are found.
class Launched {
 public:
  enum class Input : std::uint8_t { kNothing, kPipe };
  explicit Launched(std::vector<std::string> arguments, Input input = Input::kNothing);
  ~Launched();

  pid_t pid() const noexcept { return pid_; }
  void signal(int number) const;
  void type(const std::string& text) const;
  void end_input() { input_ = Fd(); }
  // The stdout so far.
  std::string out() const;
  // Waits until stdout contains `text`; false after 20 s.
  bool wait_for_out(const std::string& text) const;
  Finished wait();
  // Processes with this job's mark, the launcher and zombies not counted.
  std::vector<pid_t> processes() const;
  // True when none is left, within the time.
  bool all_gone(std::chrono::milliseconds timeout = std::chrono::seconds(5)) const;

 private:
  struct Collected;
  std::string mark_;
  pid_t pid_ = -1;
  bool waited_ = false;
  Fd input_;
  std::unique_ptr<Collected> out_;
  std::unique_ptr<Collected> err_;
};

// `xoe run -np SIZE OPTIONS bash -c SCRIPT`, to its end.
Finished run_script(int size, const std::string& script, const std::vector<std::string>& options = {});
std::vector<std::string> script_arguments(int size, const std::string& script,
                                          const std::vector<std::string>& options = {});

inline bool both_ready(const Launched& job) { return job.wait_for_out("[0] ready") && job.wait_for_out("[1] ready"); }

std::vector<std::string> lines_of(const std::string& text);
std::string file_text(const std::string& path);

// The state letter of /proc/PID/stat, or 0 when there is no such process.
char state_of(pid_t pid);

template <class Condition>
bool eventually(Condition condition, std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace xoe::launch
