// NVIDIA's management library, loaded when it is there. Our own declarations of the part of its documented C interface
// that is used (NVML API reference); tests put a library of their own in its place.
#pragma once

#include <cstdint>
#include <string>

#include "xoe/status.h"

namespace xoe::doctor {

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

struct NvmlProcess {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct NvmlDevice;  // of the library

// Functions that may be null came later than others, or are not in every library.
struct Nvml {
  static constexpr int kSuccess = 0;
  static constexpr int kNotSupported = 3;
  static constexpr int kInsufficientSize = 7;
  static constexpr int kMismatch = 18;  // kernel module and library are of different versions

  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*cuda_version)(int*) = nullptr;  // 1000 x major + 10 x minor
  int (*device_count)(unsigned*) = nullptr;
  int (*device)(unsigned, NvmlDevice**) = nullptr;
  int (*name)(NvmlDevice*, char*, unsigned) = nullptr;
  int (*uuid)(NvmlDevice*, char*, unsigned) = nullptr;
  int (*pci)(NvmlDevice*, NvmlPciInfo*) = nullptr;
  int (*memory)(NvmlDevice*, NvmlMemory*) = nullptr;
  int (*mig_mode)(NvmlDevice*, unsigned* now, unsigned* later) = nullptr;                        // may be null
  int (*processes)(NvmlDevice*, unsigned* count, NvmlProcess*) = nullptr;                        // may be null
  int (*nvlink_state)(NvmlDevice*, unsigned link, unsigned* active) = nullptr;                   // may be null
  int (*nvlink_remote)(NvmlDevice*, unsigned link, NvmlPciInfo*) = nullptr;                      // may be null
  int (*nvlink_remote_type)(NvmlDevice*, unsigned link, unsigned* type) = nullptr;               // may be null
  int (*common_ancestor)(NvmlDevice*, NvmlDevice*, unsigned* level) = nullptr;                   // may be null
  int (*p2p_status)(NvmlDevice*, NvmlDevice*, unsigned capability, unsigned* status) = nullptr;  // may be null
};

// `unavailable` with the loader's words when there is none; `unsupported` naming a function that it lacks.
Result<Nvml> load_nvml(const std::string& library);

}  // namespace xoe::doctor
