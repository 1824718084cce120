// The members of a rendezvous, each on a simulated host of its own: h0, h1, ...
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/testing/sim/simulation.h"

namespace xoe::launch::sim_tests {

class Members {
 public:
  explicit Members(int count);

  // Starts `xoe run` there, with these options, and `program`, a name and arguments, as what it runs.
  void start(int member, const std::string& program, const std::vector<std::string>& options = {},
             const std::vector<std::string>& variables = {});
  void start_all(const std::string& program, const std::vector<std::string>& options = {},
                 const std::vector<std::string>& variables = {});

  const sim::Host& host(int member) const { return hosts_[static_cast<std::size_t>(member)]; }
  void signal(int member, int number) const { sim::signal_process(pids_.at(member), number); }
  // The exit code, or minus the signal that ended it; what does not end fails the case.
  int code(int member) const;
  std::vector<int> codes() const;
  bool runs(int member) const { return !sim::facts_of(pids_.at(member)).ended; }
  // What the member and its ranks wrote, without the times.
  std::string said(int member) const;
  // Waits until it has written this; fails the case where it does not.
  void says(int member, const std::string& text) const;
  void all_say(const std::string& text) const;
  // No process is left on any host, once what is about to end has ended.
  bool all_gone() const;

 private:
  std::vector<sim::Host> hosts_;
  std::map<int, pid_t> pids_;  // the last one of each
};

// What passes between the processes of a simulation.
struct Flags {
  bool go = false, failed_once = false, goes_again = false;
};
extern Flags* const flags;  // in memory that they share

}  // namespace xoe::launch::sim_tests
