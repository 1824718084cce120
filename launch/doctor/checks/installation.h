// Xoe itself: its backends, and whether they work on this machine.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launch/doctor/report/finding.h"

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
  std::vector<std::string> searched = {};
  bool rdma = false;  // an active port is there
};

// Shares a page with a process, wakes it, and watches it end. Returns the error; empty: all of it works.
std::string try_sharing(std::chrono::milliseconds timeout);
// Loads each installed plug-in in a process of its own. Looks in `folder` if it is given, else beside the program
// and in the `lib` folder beside its own.
void find_plugins(InstallationFacts& facts, const std::string& folder, std::chrono::milliseconds timeout);

// The backends that load here and can connect this host with others: "gloo", "mpi".
std::vector<std::string> loading_engines(const InstallationFacts& facts);
// The one that ranks choose by default between hosts, started by `xoe run` or (by_mpi) by mpirun or srun; empty: none.
std::string engine_between_hosts(const std::vector<std::string>& loading, bool by_mpi);
// "hierarchical over gloo, over mpi under mpirun or srun"; empty: none of them connects hosts.
std::string say_engines(const std::vector<std::string>& loading);
Findings check_installation(const InstallationFacts& facts);

}  // namespace xoe::doctor
