// Xoe itself: what it can do on this machine.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "doctor/finding.h"

namespace xoe::doctor {

// A backend that lives in a library of its own, libxoe-NAME.so.
struct PluginFacts {
  std::string name = {};   // "gloo", "mpi-openmpi", "mpi-mpich"
  std::string path = {};   // where it is; empty: not installed
  std::string error = {};  // why it does not load
  std::string build = {};  // of Xoe that it belongs to

  bool works() const { return !path.empty() && error.empty(); }
};

struct InstallationFacts {
  std::string version = {};
  std::string program = {};       // the whole path of this one
  bool tried = true;              // false: of a recorded tree
  std::string shared_error = {};  // why memory cannot be shared between processes; empty: it can
  std::vector<PluginFacts> plugins = {};
  std::vector<std::string> looked_in = {};
  bool nccl = false;  // GPUs and NCCL are there
  bool rdma = false;  // an active port is there
};

// Shares a page with a process, wakes it, and watches it end. Empty, or what did not work.
std::string try_sharing(std::chrono::milliseconds patience);
// Loads each plug-in that is there, in a process of its own. Looks in `folder` if it is given, else beside the program
// and in the `lib` folder beside its own.
void find_plugins(InstallationFacts& facts, const std::string& folder, std::chrono::milliseconds patience);

// What could join this host with others, the best first: of "nccl", "mpi", "gloo".
std::vector<std::string> engines_between_hosts(const InstallationFacts& facts);
Findings check_installation(const InstallationFacts& facts);

}  // namespace xoe::doctor
