// Which memory GPUs and network interfaces are near, from the files of the kernel and of the driver.
#pragma once

#include <string>
#include <vector>

namespace xoe::launch {

// The kernel's folders; tests give recorded ones.
struct GpuFiles {
  std::string gpus = "/proc/driver/nvidia/gpus";
  std::string pci = "/sys/bus/pci/devices";
};

struct Gpu {
  std::string pci;   // 0000:3b:00.0
  std::string uuid;  // GPU-...; empty: not known
  int numa = -1;     // -1: not known
};

// In the order of their PCI addresses, which is how they are numbered.
std::vector<Gpu> read_gpus(const GpuFiles& files);

// The memory near each device of a list as in CUDA_VISIBLE_DEVICES (numbers, or beginnings of UUIDs); empty when it is
// not known for all of them.
std::vector<int> numa_nodes_of(const std::vector<std::string>& devices, const std::vector<Gpu>& gpus);

// -1: not known. `net`: /sys/class/net; tests give a recorded one. A bond, bridge or VLAN has the node that all
// interfaces below it share.
int numa_node_of_interface(const std::string& name, const std::string& net);

}  // namespace xoe::launch
