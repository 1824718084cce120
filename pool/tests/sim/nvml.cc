// NVIDIA's library of a simulated host: it tells what the world has.
#include "core/drivers/nvml/nvml.h"

#include <cstdint>
#include <cstdio>
#include <vector>

#include "pool/tests/sim/world.h"

namespace xoe {
namespace {

using pool::sim_tests::gpu_name;
using pool::sim_tests::world;

constexpr unsigned long long kMemory = 16ULL << 30U;

int index_of(NvmlDevice device) { return static_cast<int>(reinterpret_cast<std::uintptr_t>(device)) - 1; }

std::vector<pid_t> programs(NvmlDevice device) {
  const std::string& host = sim::name_of_this_host();
  return world->programs_on(host, gpu_name(host, index_of(device)));
}

NvmlResult write(char* text, unsigned size, const std::string& value) {
  std::snprintf(text, size, "%s", value.c_str());
  return NvmlResult::kSuccess;
}

NvmlResult nothing() { return NvmlResult::kSuccess; }
const char* error_string(NvmlResult) { return "an error"; }

NvmlResult device_count(unsigned* count) {
  *count = static_cast<unsigned>(world->gpus.at(sim::name_of_this_host()));
  return NvmlResult::kSuccess;
}

NvmlResult device_by_index(unsigned index, NvmlDevice* device) {
  *device = reinterpret_cast<NvmlDevice>(static_cast<std::uintptr_t>(index) + 1);
  return NvmlResult::kSuccess;
}

NvmlResult name(NvmlDevice, char* text, unsigned size) { return write(text, size, "Tesla T4"); }
NvmlResult uuid(NvmlDevice device, char* text, unsigned size) {
  return write(text, size, gpu_name(sim::name_of_this_host(), index_of(device)));
}

NvmlResult pci_info(NvmlDevice device, NvmlPciInfo* info) {
  *info = {};
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", static_cast<unsigned>(index_of(device) + 1));
  return NvmlResult::kSuccess;
}

NvmlResult memory_info(NvmlDevice device, NvmlMemory* memory) {
  const unsigned long long used = programs(device).empty() ? 0 : kMemory / 2;
  *memory = {.total = kMemory, .free = kMemory - used, .used = used};
  return NvmlResult::kSuccess;
}

NvmlResult utilization(NvmlDevice device, NvmlUtilization* use) {
  *use = {};
  for (const pid_t pid : programs(device))
    if (world->computing.at(pid).busy) use->gpu = 90;
  return NvmlResult::kSuccess;
}

NvmlResult compute_processes(NvmlDevice device, unsigned* count, NvmlProcess* list) {
  const auto found = programs(device);
  const unsigned room = *count;
  *count = static_cast<unsigned>(found.size());
  if (found.size() > room) return NvmlResult::kInsufficientSize;
  for (std::size_t i = 0; i < found.size(); ++i)
    list[i] = {.pid = static_cast<unsigned>(found[i]), .memory = kMemory / 2, .gpu_instance = 0, .compute_instance = 0};
  return NvmlResult::kSuccess;
}

}  // namespace

Result<NvmlApi> load_nvml(const std::string&) {
  NvmlApi api;
  api.init = api.shutdown = &nothing;
  api.error_string = &error_string;
  api.device_count = &device_count;
  api.device_by_index = &device_by_index;
  api.name = &name;
  api.uuid = &uuid;
  api.pci_info = &pci_info;
  api.memory_info = &memory_info;
  api.utilization = &utilization;
  api.compute_processes = &compute_processes;
  return api;
}

}  // namespace xoe
