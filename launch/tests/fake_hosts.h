// Hosts that are played by this one: a script stands for ssh, which needs neither a network nor a server.
#pragma once

#include <string>
#include <vector>

#include "core/testing/scratch.h"
#include "launch/tests/launched.h"

namespace xoe::launch {

// "one" to "nine" answer. "far" does too, but its words take 0.15 s, and as long as the file hold is in the folder.
// "noisy" greets like a login shell first. "gone", "denied", "unknown" and "changed" fail as ssh does when the host is
// down, the key is wrong, and the host's key is not known or another; "bare" has no xoe, a profile of "sour" fails,
// "odd" answers with something else, "old" is of another version, and "slow" never answers.
class FakeHosts {
 public:
  FakeHosts();

  const std::string& folder() const noexcept { return folder_; }
  // `run -H HOSTS --ssh-command ... OPTIONS bash -c SCRIPT`
  std::vector<std::string> arguments(const std::string& hosts, const std::string& script,
                                     const std::vector<std::string>& options = {}) const;
  Finished run(const std::string& hosts, const std::string& script, const std::vector<std::string>& options = {}) const;
  // A line for each connection that was made: "from HOST: " (this one: here) and the arguments of "ssh".
  std::string log() const;

 private:
  const Scratch scratch_;
  const std::string& folder_ = scratch_.path();
};

}  // namespace xoe::launch
