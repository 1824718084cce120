// NVIDIA's management library as a table of functions: who else uses a GPU. See nccl_api.h.
#pragma once

namespace xoe::nccl {

struct NvmlDeviceObject;  // of the library
using NvmlDevice = NvmlDeviceObject*;

struct NvmlProcess {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};

enum class NvmlResult : int { kSuccess = 0, kInsufficientSize = 7 };

struct NvmlApi {
  NvmlResult (*init)() = nullptr;
  NvmlResult (*shutdown)() = nullptr;
  NvmlResult (*device_by_uuid)(const char*, NvmlDevice*) = nullptr;  // "GPU-..."
  NvmlResult (*compute_processes)(NvmlDevice, unsigned* count, NvmlProcess*) = nullptr;
};

template <class Api, class Visit>
void for_each_nvml_function(Api& api, Visit&& visit) {
  visit(api.init, "nvmlInit_v2");
  visit(api.shutdown, "nvmlShutdown");
  visit(api.device_by_uuid, "nvmlDeviceGetHandleByUUID");
  visit(api.compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3");
}

}  // namespace xoe::nccl
