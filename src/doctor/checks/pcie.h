// How GPUs and network cards are connected by PCI Express, and the obstacles to direct transfers between them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/facts/pci_config.h"
#include "doctor/facts/tree.h"
#include "doctor/report/finding.h"

namespace xoe::doctor {

struct PciFunction {
  std::string address = {};  // "0000:3b:00.0"
  int vendor = 0;
  int device = 0;
  int device_class = 0;                // as /sys writes it: 0x030200
  std::vector<std::string> path = {};  // from the root complex to this function: "pci0000:3a", "0000:3a:00.0", ...
  std::string driver = {};
  int numa_node = -1;
  std::optional<PciConfig> config = {};
  std::string config_error = {};  // why there is none
};

struct PcieFacts {
  std::vector<PciFunction> gpus = {};
  std::vector<PciFunction> cards = {};    // RDMA and fast network cards
  std::vector<PciFunction> bridges = {};  // on the way to one of them
  bool iommu = false;
  std::string iommu_type = {};  // of the group of the first GPU or card: "DMA", "identity", ...
  bool virtual_machine = false;
};

PcieFacts read_pcie(const Tree& tree, bool virtual_machine);
Findings check_pcie(const PcieFacts& facts);

}  // namespace xoe::doctor
