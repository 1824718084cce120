// NVIDIA's management library as a table of functions, loaded where it is installed: our own declarations of the part
// of its documented C interface that is used (NVML API reference). core/tests/drivers has the mock, and compares the
// declarations with NVIDIA's headers.
#pragma once

#include <string>

#include "xoe/status.h"

namespace xoe {

struct NvmlDeviceObject;  // of the library
using NvmlDevice = NvmlDeviceObject*;

struct NvmlPciInfo {
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char bus_id[32];  // "00000000:3B:00.0"
};

struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct NvmlUtilization {
  unsigned gpu;  // per cent of the last sample period with a kernel running
  unsigned memory;
};

struct NvmlProcess {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};

// Only the results that callers distinguish; there are many more.
enum class NvmlResult : int {
  kSuccess = 0,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
  kFunctionNotFound = 13,  // the driver is older than the library
  kVersionMismatch = 18    // between kernel module and library
};

struct NvmlApi {
  NvmlResult (*init)() = nullptr;
  NvmlResult (*shutdown)() = nullptr;
  const char* (*error_string)(NvmlResult) = nullptr;
  NvmlResult (*driver_version)(char*, unsigned) = nullptr;
  NvmlResult (*cuda_version)(int*) = nullptr;  // 1000 x major + 10 x minor
  NvmlResult (*device_count)(unsigned*) = nullptr;
  NvmlResult (*device_by_index)(unsigned, NvmlDevice*) = nullptr;
  NvmlResult (*device_by_uuid)(const char*, NvmlDevice*) = nullptr;  // "GPU-..."
  NvmlResult (*name)(NvmlDevice, char*, unsigned) = nullptr;
  NvmlResult (*uuid)(NvmlDevice, char*, unsigned) = nullptr;
  NvmlResult (*pci_info)(NvmlDevice, NvmlPciInfo*) = nullptr;
  NvmlResult (*memory_info)(NvmlDevice, NvmlMemory*) = nullptr;

  // Null where the library lacks them: they came later than the others.
  NvmlResult (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  NvmlResult (*temperature)(NvmlDevice, unsigned sensor, unsigned* degrees) = nullptr;
  NvmlResult (*max_mig_devices)(NvmlDevice, unsigned*) = nullptr;
  NvmlResult (*mig_device)(NvmlDevice, unsigned index, NvmlDevice*) = nullptr;
  NvmlResult (*mig_mode)(NvmlDevice, unsigned* now, unsigned* later) = nullptr;
  NvmlResult (*compute_processes)(NvmlDevice, unsigned* count, NvmlProcess*) = nullptr;
  NvmlResult (*nvlink_state)(NvmlDevice, unsigned link, unsigned* active) = nullptr;
  NvmlResult (*nvlink_remote)(NvmlDevice, unsigned link, NvmlPciInfo*) = nullptr;
  NvmlResult (*nvlink_remote_type)(NvmlDevice, unsigned link, unsigned* type) = nullptr;
  NvmlResult (*common_ancestor)(NvmlDevice, NvmlDevice, unsigned* level) = nullptr;
  NvmlResult (*p2p_status)(NvmlDevice, NvmlDevice, unsigned capability, unsigned* status) = nullptr;
};

// visit(field, symbol, whether every library must have it) for every function of the table.
template <class Api, class Visit>
void for_each_nvml_function(Api& api, Visit&& visit) {
  visit(api.init, "nvmlInit_v2", true);
  visit(api.shutdown, "nvmlShutdown", true);
  visit(api.error_string, "nvmlErrorString", true);
  visit(api.driver_version, "nvmlSystemGetDriverVersion", true);
  visit(api.cuda_version, "nvmlSystemGetCudaDriverVersion_v2", true);
  visit(api.device_count, "nvmlDeviceGetCount_v2", true);
  visit(api.device_by_index, "nvmlDeviceGetHandleByIndex_v2", true);
  visit(api.device_by_uuid, "nvmlDeviceGetHandleByUUID", true);
  visit(api.name, "nvmlDeviceGetName", true);
  visit(api.uuid, "nvmlDeviceGetUUID", true);
  visit(api.pci_info, "nvmlDeviceGetPciInfo_v3", true);
  visit(api.memory_info, "nvmlDeviceGetMemoryInfo", true);
  visit(api.utilization, "nvmlDeviceGetUtilizationRates", false);
  visit(api.temperature, "nvmlDeviceGetTemperature", false);
  visit(api.max_mig_devices, "nvmlDeviceGetMaxMigDeviceCount", false);
  visit(api.mig_device, "nvmlDeviceGetMigDeviceHandleByIndex", false);
  visit(api.mig_mode, "nvmlDeviceGetMigMode", false);
  visit(api.compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3", false);
  visit(api.nvlink_state, "nvmlDeviceGetNvLinkState", false);
  visit(api.nvlink_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2", false);
  visit(api.nvlink_remote_type, "nvmlDeviceGetNvLinkRemoteDeviceType", false);
  visit(api.common_ancestor, "nvmlDeviceGetTopologyCommonAncestor", false);
  visit(api.p2p_status, "nvmlDeviceGetP2PStatus", false);
}

// `unavailable` with the loader's message when there is none; `unsupported` naming a function that it lacks.
Result<NvmlApi> load_nvml(const std::string& name = "libnvidia-ml.so.1");

}  // namespace xoe
