#include "launch/plan/nic_locality.h"

#include <filesystem>
#include <optional>
#include <system_error>

#include "base/machine.h"
#include "base/text.h"

namespace xoe::launch {
namespace {

constexpr int kMaxLayers = 8;  // interfaces upon interfaces

// A virtio device has no node of its own: the PCI device that it is part of does.
int numa_node_of_device(const std::string& device) {
  for (const char* file : {"/numa_node", "/../numa_node"})
    if (const auto node = read_line(device + file)) return static_cast<int>(parse_integer(*node).value_or(-1));
  return -1;
}

int find_node(const std::string& name, const std::string& net, int layers) {
  const std::string folder = net + "/" + name;
  std::error_code error;
  if (std::filesystem::exists(folder + "/device", error)) return numa_node_of_device(folder + "/device");
  if (layers == 0) return -1;
  std::optional<int> common;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string link = entry.path().filename();
    if (!link.starts_with("lower_")) continue;
    const int node = find_node(link.substr(6), net, layers - 1);
    if (common.value_or(node) != node) return -1;
    common = node;
  }
  return common.value_or(-1);
}

}  // namespace

int numa_node_of_interface(const std::string& name, const std::string& net) {
  if (name.empty() || name.find('/') != std::string::npos) return -1;
  return find_node(name, net, kMaxLayers);
}

}  // namespace xoe::launch
