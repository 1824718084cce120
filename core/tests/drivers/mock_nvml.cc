// A mock of libnvidia-ml.so.1. In the process of a test MockNvml sets its GPUs; as a library of its own (mock_nvml.so)
// it takes them from environment variables:
//   XOE_MOCK_GPUS=pair (default) | switch (four behind an NVSwitch) | four (T4, linked in pairs) | many (70) | none
//   XOE_MOCK_TROUBLE=mismatch | hang | crash | held | mig | p2p | unlisted | lost (GPU 1) |
//   mode (GPU 1 does not tell its MIG mode)
//   XOE_MOCK_DRIVER, XOE_MOCK_CUDA: "550.54.14", "12040"
//   XOE_MOCK_MIG_EMPTY: with mig, the GPU in that mode has no instances
//   XOE_MOCK_HOST=2: a number in the UUIDs, so that several hosts' GPUs differ
//   XOE_MOCK_STATE=FILE: a line "index utilisation memory_used_mib pid,pid" for each GPU that is in use
#include <unistd.h>
#include <array>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "core/tests/drivers/mock_nvml.h"

using xoe::NvmlDevice;
using xoe::NvmlMemory;
using xoe::NvmlPciInfo;
using xoe::NvmlProcess;
using xoe::NvmlResult;
using xoe::testing::mock_nvml;

struct xoe::NvmlDeviceObject {
  unsigned index;
};

namespace {

constexpr NvmlResult kSuccess = NvmlResult::kSuccess;
constexpr NvmlResult kNotFound = NvmlResult::kNotFound;
constexpr NvmlResult kIsLost{15};
constexpr NvmlResult kUnknown{999};

constexpr unsigned kMany = 70;

// 14 and 15 are instances where a GPU is in MIG mode.
std::array<xoe::NvmlDeviceObject, kMany> devices = [] {
  std::array<xoe::NvmlDeviceObject, kMany> made{};
  for (unsigned index = 0; index < kMany; ++index) made[index].index = index;
  return made;
}();

std::string setting(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

bool trouble(const char* kind) { return setting("XOE_MOCK_TROUBLE", "") == kind; }
bool is_instance(NvmlDevice device) { return trouble("mig") && device->index >= 14; }
bool switched() { return setting("XOE_MOCK_GPUS", "pair") == "switch"; }
bool four() { return setting("XOE_MOCK_GPUS", "pair") == "four"; }

// The line about a GPU in the file of XOE_MOCK_STATE.
struct Activity {
  unsigned utilisation = 0;
  unsigned long long memory_used = 1024;  // MiB
  std::vector<int> pids = {};
};
Activity activity_of(unsigned index) {
  std::ifstream file(setting("XOE_MOCK_STATE", ""));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Activity found;
    unsigned number = 0;
    std::string pids;
    if (!(words >> number >> found.utilisation >> found.memory_used) || number != index) continue;
    words >> pids;
    std::istringstream list(pids);
    for (std::string pid; std::getline(list, pid, ',');) found.pids.push_back(std::atoi(pid.c_str()));
    return found;
  }
  return {};
}
unsigned count() {
  if (!mock_nvml().processes.empty()) return static_cast<unsigned>(mock_nvml().processes.size());
  const std::string gpus = setting("XOE_MOCK_GPUS", "pair");
  if (gpus == "many") return kMany;
  return gpus == "none" ? 0 : gpus == "switch" || gpus == "four" ? 4 : 2;
}

NvmlResult put(char* out, unsigned size, const std::string& text) {
  if (text.size() >= size) return NvmlResult::kInsufficientSize;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

// Where the GPUs of the recorded machine are.
void put_pci(NvmlPciInfo* pci, unsigned index) {
  static constexpr unsigned kBuses[] = {0x03, 0x0b, 0x41, 0x42};
  static constexpr const char* kIds[] = {"00000000:03:00.0", "00000000:0B:00.0", "00000000:41:00.0",
                                         "00000000:42:00.0"};
  *pci = {};
  index %= 4;
  pci->bus = kBuses[index];
  pci->device_id = 0x20b010de;
  put(pci->bus_id, sizeof pci->bus_id, kIds[index]);
}

}  // namespace

extern "C" {

NvmlResult nvmlInit_v2() {
  if (trouble("hang")) ::pause();
  if (trouble("crash")) std::raise(SIGSEGV);
  if (trouble("mismatch")) return NvmlResult::kVersionMismatch;
  ++mock_nvml().sessions;
  return kSuccess;
}
NvmlResult nvmlShutdown() {
  --mock_nvml().sessions;
  return kSuccess;
}
const char* nvmlErrorString(NvmlResult error) {
  if (error == NvmlResult::kVersionMismatch) return "Driver/library version mismatch";
  return error == kIsLost ? "GPU is lost" : "another error";
}
NvmlResult nvmlSystemGetDriverVersion(char* out, unsigned size) {
  return put(out, size, setting("XOE_MOCK_DRIVER", "550.54.14"));
}
NvmlResult nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = std::atoi(setting("XOE_MOCK_CUDA", "12040").c_str());
  return kSuccess;
}
NvmlResult nvmlDeviceGetCount_v2(unsigned* out) {
  *out = count();
  return kSuccess;
}
NvmlResult nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice* found) {
  if (index >= count()) return NvmlResult::kInvalidArgument;
  if (trouble("lost") && index == 1) return kIsLost;
  *found = &devices[index];
  return kSuccess;
}
NvmlResult nvmlDeviceGetHandleByUUID(const char* uuid, NvmlDevice* found) {
  for (unsigned index = 0; index < count(); ++index) {
    if (xoe::testing::mock_gpu_uuid(index) != uuid) continue;
    *found = &devices[index];
    return kSuccess;
  }
  return kNotFound;
}
NvmlResult nvmlDeviceGetName(NvmlDevice device, char* out, unsigned size) {
  return put(out, size,
             std::string(four() ? "Tesla T4" : "NVIDIA A100-SXM4-40GB") + (is_instance(device) ? " MIG 1g.5gb" : ""));
}
NvmlResult nvmlDeviceGetUUID(NvmlDevice device, char* out, unsigned size) {
  const std::string uuid = xoe::testing::mock_gpu_uuid(device->index);
  return put(out, size, is_instance(device) ? "MIG" + uuid.substr(3) : uuid);
}
NvmlResult nvmlDeviceGetPciInfo_v3(NvmlDevice device, NvmlPciInfo* pci) {
  if (is_instance(device)) return NvmlResult::kNotSupported;
  put_pci(pci, device->index);
  return kSuccess;
}
NvmlResult nvmlDeviceGetMemoryInfo(NvmlDevice device, NvmlMemory* memory) {
  const unsigned long long total = is_instance(device) ? 5ULL << 30 : four() ? 15ULL << 30 : 40ULL << 30;
  const unsigned long long used = activity_of(device->index).memory_used << 20;
  *memory = {.total = total, .free = total - used, .used = used};
  return kSuccess;
}
NvmlResult nvmlDeviceGetUtilizationRates(NvmlDevice device, xoe::NvmlUtilization* use) {
  if (is_instance(device)) return NvmlResult::kNotSupported;
  *use = {.gpu = activity_of(device->index).utilisation, .memory = 0};
  return kSuccess;
}
NvmlResult nvmlDeviceGetTemperature(NvmlDevice, unsigned, unsigned* degrees) {
  *degrees = 41;
  return kSuccess;
}
// Two instances of a GPU in MIG mode, or none; without use that is told.
NvmlResult nvmlDeviceGetMaxMigDeviceCount(NvmlDevice, unsigned* out) {
  *out = 7;
  return kSuccess;
}
NvmlResult nvmlDeviceGetMigDeviceHandleByIndex(NvmlDevice, unsigned index, NvmlDevice* found) {
  if (index >= (std::getenv("XOE_MOCK_MIG_EMPTY") != nullptr ? 0U : 2U)) return kNotFound;
  *found = &devices[14 + index];
  return kSuccess;
}
NvmlResult nvmlDeviceGetMigMode(NvmlDevice device, unsigned* now, unsigned* later) {
  if (trouble("mode") && device->index == 1) return kUnknown;
  *now = *later = trouble("mig") && device->index == 1 ? 1 : 0;
  return kSuccess;
}
NvmlResult nvmlDeviceGetComputeRunningProcesses_v3(NvmlDevice device, unsigned* number, NvmlProcess* list) {
  if (trouble("unlisted")) return NvmlResult::kNotSupported;
  std::vector<int> pids = activity_of(device->index).pids;
  if (!mock_nvml().processes.empty()) pids = mock_nvml().processes[device->index];
  // More than fit at first.
  if (trouble("held") && device->index == 0)
    for (int i = 0; i < 70; ++i) pids.push_back(4000 + i);
  const unsigned room = *number;
  *number = static_cast<unsigned>(pids.size());
  if (room < *number) return NvmlResult::kInsufficientSize;
  for (std::size_t i = 0; i < pids.size(); ++i)
    list[i] = {.pid = static_cast<unsigned>(pids[i]), .memory = 1ULL << 30, .gpu_instance = 0, .compute_instance = 0};
  return kSuccess;
}
NvmlResult nvmlDeviceGetNvLinkState(NvmlDevice, unsigned link, unsigned* active) {
  if (link >= 12) return NvmlResult::kInvalidArgument;
  *active = switched() || link < 4 ? 1 : 0;
  return kSuccess;
}
NvmlResult nvmlDeviceGetNvLinkRemoteDeviceType(NvmlDevice, unsigned, unsigned* type) {
  *type = switched() ? 2 : 0;
  return kSuccess;
}
NvmlResult nvmlDeviceGetNvLinkRemotePciInfo_v2(NvmlDevice device, unsigned, NvmlPciInfo* pci) {
  if (switched()) return NvmlResult::kNotSupported;
  put_pci(pci, device->index ^ 1);
  return kSuccess;
}
NvmlResult nvmlDeviceGetTopologyCommonAncestor(NvmlDevice, NvmlDevice, unsigned* level) {
  *level = 50;
  return kSuccess;
}
NvmlResult nvmlDeviceGetP2PStatus(NvmlDevice, NvmlDevice, unsigned, unsigned* status) {
  *status = trouble("p2p") ? 1 : 0;
  return kSuccess;
}
}

namespace xoe::testing {

MockNvml& mock_nvml() {
  static MockNvml state;
  return state;
}

std::string mock_gpu_uuid(unsigned index) {
  static constexpr const char* kDigits = "0123456789abcdef";
  const std::string host = setting("XOE_MOCK_HOST", "0");
  return "GPU-" + std::string(8 - std::min<std::size_t>(host.size(), 8), '0') + host.substr(0, 8) +
         "-1111-2222-3333-44444444444" + kDigits[index % 16];
}

NvmlApi mock_nvml_api() {
  return {.init = nvmlInit_v2,
          .shutdown = nvmlShutdown,
          .error_string = nvmlErrorString,
          .device_count = nvmlDeviceGetCount_v2,
          .device_by_index = nvmlDeviceGetHandleByIndex_v2,
          .device_by_uuid = nvmlDeviceGetHandleByUUID,
          .compute_processes = nvmlDeviceGetComputeRunningProcesses_v3};
}

}  // namespace xoe::testing
