#include "launch/plan/locality.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "core/base/machine.h"
#include "core/base/text.h"

namespace xoe::launch {
namespace {

constexpr int kMaxLayers = 8;  // interfaces upon interfaces

// The line "GPU UUID:  GPU-..." of a device's file.
std::string uuid_in(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("GPU UUID:")) continue;
    const auto at = line.find("GPU-");
    return at == std::string::npos ? std::string() : line.substr(at, line.find_first_of(" \t\r", at) - at);
  }
  return {};
}

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

std::vector<Gpu> read_gpus(const GpuFiles& files) {
  std::vector<Gpu> gpus;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(files.gpus, error)) {
    Gpu& gpu = gpus.emplace_back();
    gpu.pci = entry.path().filename();
    gpu.uuid = uuid_in(entry.path() / "information");
    if (const auto node = read_line(files.pci + "/" + gpu.pci + "/numa_node"))
      gpu.numa = static_cast<int>(parse_integer(*node).value_or(-1));
  }
  std::ranges::sort(gpus, {}, &Gpu::pci);
  return gpus;
}

std::vector<int> numa_nodes_of(const std::vector<std::string>& devices, const std::vector<Gpu>& gpus) {
  std::vector<int> nodes;
  for (const std::string& device : devices) {
    const auto number = parse_integer(device);
    auto gpu = gpus.end();
    if (number && *number >= 0 && static_cast<std::size_t>(*number) < gpus.size())
      gpu = gpus.begin() + *number;
    else if (device.starts_with("GPU-"))
      gpu = std::ranges::find_if(gpus, [&](const Gpu& one) { return one.uuid.starts_with(device); });
    if (gpu == gpus.end() || gpu->numa < 0) return {};
    nodes.push_back(gpu->numa);
  }
  return nodes;
}

int numa_node_of_interface(const std::string& name, const std::string& net) {
  if (name.empty() || name.find('/') != std::string::npos) return -1;
  return find_node(name, net, kMaxLayers);
}

}  // namespace xoe::launch
