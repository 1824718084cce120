// InfiniBand and RoCE cards, and the network interface of each port.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/tree.h"
#include "doctor/report/finding.h"

namespace xoe::doctor {

struct RdmaPort {
  std::string device = {};  // "mlx5_0"
  int number = 1;
  std::string state = {};       // "ACTIVE", "DOWN", ...
  std::string physical = {};    // "LinkUp", "Polling", "Disabled", ...
  std::string rate = {};        // "100 Gb/sec (4X EDR)"
  std::string link_layer = {};  // "InfiniBand" or "Ethernet"
  std::string interface = {};   // empty: none
  bool interface_up = false;
  std::string pci = {};
  std::string board = {};
  std::string firmware = {};
  int numa_node = -1;

  bool active() const { return state == "ACTIVE"; }
};

struct RdmaFacts {
  std::vector<RdmaPort> ports = {};
  std::vector<std::string> verbs = {};  // uverbs devices that this process may open
  bool verbs_seen = false;              // there are any
  bool peer_memory = false;             // GPU memory can be registered (nvidia_peermem)
  bool nvidia_gpus = false;
};

RdmaFacts read_rdma(const Tree& tree);
Findings check_rdma(const RdmaFacts& facts);

}  // namespace xoe::doctor
