// A job started through the real `xoe run`, watched and killed from outside.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace xoe::testing {

double now_seconds();

class Job {
 public:
  // xoe run -np `ranks` `command`, with a marker in the environment that all its descendants inherit.
  Job(int ranks, const std::vector<std::string>& command);
  Job(const Job&) = delete;
  ~Job();

  pid_t launcher() const { return launcher_; }
  // The process that is rank `rank`, or -1 while there is none.
  pid_t rank_pid(int rank) const;
  // Reads until a line contains `text`; the empty string at the end of the output or after `seconds`.
  std::string read_until(const std::string& text, double seconds);
  // Reads to the end of the output; false if that takes longer than `seconds`.
  bool read_all(double seconds);
  // Lines "[rank] text" of a rank, without the tag.
  std::vector<std::string> lines_of(int rank) const;
  const std::string& output() const { return output_; }
  // The launcher's exit code, or minus the signal.
  int wait();
  // Processes with the job's marker that are alive; waits up to `seconds` for them to go.
  std::vector<pid_t> left_after(double seconds) const;

 private:
  bool read_more(double until);
  std::vector<pid_t> processes_with(const std::string& variable) const;

  std::string marker_;
  pid_t launcher_ = -1;
  int pipe_ = -1;
  std::string output_;
};

std::vector<std::string> files_in_dev_shm();
// Rounds of a kill test: XOE_KILL_ROUNDS, else `usual`.
int kill_rounds(int usual);

}  // namespace xoe::testing
