// AMD's management library as a table of functions, loaded where it is installed: our own declarations of the part of
// its documented C interface that is used (ROCm SMI API reference). core/tests/drivers has the mock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "xoe/status.h"

namespace xoe {

struct RocmProcess {
  std::uint32_t pid;
  std::uint32_t address_space;
  std::uint64_t memory;
  std::uint64_t dma;
  std::uint32_t occupancy;
};

// Only the result that callers distinguish.
enum class RocmResult : std::uint32_t { kSuccess = 0 };

struct RocmSmiApi {
  RocmResult (*init)(std::uint64_t flags) = nullptr;
  RocmResult (*shutdown)() = nullptr;
  RocmResult (*device_count)(std::uint32_t*) = nullptr;
  RocmResult (*name)(std::uint32_t device, char*, std::size_t) = nullptr;
  RocmResult (*unique_id)(std::uint32_t device, std::uint64_t*) = nullptr;
  RocmResult (*pci_id)(std::uint32_t device,
                       std::uint64_t*) = nullptr;  // domain << 32 | bus << 8 | device << 3 | function
  RocmResult (*memory_total)(std::uint32_t device, int kind, std::uint64_t*) = nullptr;
  RocmResult (*memory_used)(std::uint32_t device, int kind, std::uint64_t*) = nullptr;

  // Null where the library lacks them.
  RocmResult (*busy_percent)(std::uint32_t device, std::uint32_t*) = nullptr;
  RocmResult (*temperature)(std::uint32_t device, std::uint32_t sensor, int metric, std::int64_t*) = nullptr;
  RocmResult (*processes)(RocmProcess*, std::uint32_t* count) = nullptr;
  RocmResult (*process_devices)(std::uint32_t pid, std::uint32_t* devices, std::uint32_t* count) = nullptr;
  RocmResult (*link_type)(std::uint32_t, std::uint32_t, std::uint64_t* hops, std::uint32_t* type) = nullptr;
};

// visit(field, symbol, whether every library must have it) for every function of the table.
template <class Api, class Visit>
void for_each_rocm_smi_function(Api& api, Visit&& visit) {
  visit(api.init, "rsmi_init", true);
  visit(api.shutdown, "rsmi_shut_down", true);
  visit(api.device_count, "rsmi_num_monitor_devices", true);
  visit(api.name, "rsmi_dev_name_get", true);
  visit(api.unique_id, "rsmi_dev_unique_id_get", true);
  visit(api.pci_id, "rsmi_dev_pci_id_get", true);
  visit(api.memory_total, "rsmi_dev_memory_total_get", true);
  visit(api.memory_used, "rsmi_dev_memory_usage_get", true);
  visit(api.busy_percent, "rsmi_dev_busy_percent_get", false);
  visit(api.temperature, "rsmi_dev_temp_metric_get", false);
  visit(api.processes, "rsmi_compute_process_info_get", false);
  visit(api.process_devices, "rsmi_compute_process_gpus_get", false);
  visit(api.link_type, "rsmi_topo_get_link_type", false);
}

// `unavailable` with the loader's message when there is none; `unsupported` naming a
// function that it lacks.
Result<RocmSmiApi> load_rocm_smi(const std::string& name);

}  // namespace xoe
