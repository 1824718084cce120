// Stands in for libnvidia-ml.so.1: GPUs of an imagined machine, told by variables.
//   XOE_MOCK_GPUS=pair (default) | switch (four behind an NVSwitch) | none
//   XOE_MOCK_TROUBLE=mismatch | hang | crash | held | mig | p2p
//   XOE_MOCK_DRIVER, XOE_MOCK_CUDA: "550.54.14", "12040"
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "doctor/nvml.h"

using xoe::doctor::NvmlDevice;
using xoe::doctor::NvmlMemory;
using xoe::doctor::NvmlPciInfo;
using xoe::doctor::NvmlProcess;

struct xoe::doctor::NvmlDevice {
  unsigned index;
};

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalid = 2;
constexpr int kNotSupported = 3;
constexpr int kTooSmall = 7;
constexpr int kMismatch = 18;

NvmlDevice devices[4] = {{0}, {1}, {2}, {3}};

std::string setting(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

bool trouble(const char* kind) { return setting("XOE_MOCK_TROUBLE", "") == kind; }
bool switched() { return setting("XOE_MOCK_GPUS", "pair") == "switch"; }
unsigned count() {
  const std::string gpus = setting("XOE_MOCK_GPUS", "pair");
  return gpus == "none" ? 0 : gpus == "switch" ? 4 : 2;
}

int put(char* out, unsigned size, const std::string& text) {
  if (text.size() >= size) return kTooSmall;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

// Where the GPUs of the recorded machine are.
void put_pci(NvmlPciInfo* pci, unsigned index) {
  static constexpr unsigned kBuses[] = {0x03, 0x0b, 0x41, 0x42};
  static constexpr const char* kIds[] = {"00000000:03:00.0", "00000000:0B:00.0", "00000000:41:00.0",
                                         "00000000:42:00.0"};
  *pci = {};
  pci->bus = kBuses[index];
  pci->device_id = 0x20b010de;
  put(pci->bus_id, sizeof pci->bus_id, kIds[index]);
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  if (trouble("hang")) ::pause();
  if (trouble("crash")) std::raise(SIGSEGV);
  return trouble("mismatch") ? kMismatch : kSuccess;
}
int nvmlShutdown() { return kSuccess; }
const char* nvmlErrorString(int error) {
  return error == kMismatch ? "Driver/library version mismatch" : "another error";
}
int nvmlSystemGetDriverVersion(char* out, unsigned size) {
  return put(out, size, setting("XOE_MOCK_DRIVER", "550.54.14"));
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = std::atoi(setting("XOE_MOCK_CUDA", "12040").c_str());
  return kSuccess;
}
int nvmlDeviceGetCount_v2(unsigned* out) {
  *out = count();
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, NvmlDevice** device) {
  if (index >= count()) return kInvalid;
  *device = &devices[index];
  return kSuccess;
}
int nvmlDeviceGetName(NvmlDevice*, char* out, unsigned size) { return put(out, size, "NVIDIA A100-SXM4-40GB"); }
int nvmlDeviceGetUUID(NvmlDevice* device, char* out, unsigned size) {
  return put(out, size, "GPU-00000000-1111-2222-3333-44444444444" + std::to_string(device->index));
}
int nvmlDeviceGetPciInfo_v3(NvmlDevice* device, NvmlPciInfo* pci) {
  put_pci(pci, device->index);
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(NvmlDevice*, NvmlMemory* memory) {
  *memory = {.total = 40ULL << 30, .free = 39ULL << 30, .used = 1ULL << 30};
  return kSuccess;
}
int nvmlDeviceGetMigMode(NvmlDevice* device, unsigned* now, unsigned* later) {
  *now = *later = trouble("mig") && device->index == 1 ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses_v3(NvmlDevice* device, unsigned* number, NvmlProcess* list) {
  // More than fit at first.
  const unsigned here = trouble("held") && device->index == 0 ? 70 : 0;
  const unsigned room = *number;
  *number = here;
  if (room < here) return kTooSmall;
  for (unsigned i = 0; i < here; ++i)
    list[i] = {.pid = 4000 + i, .memory = 1ULL << 30, .gpu_instance = 0, .compute_instance = 0};
  return kSuccess;
}
int nvmlDeviceGetNvLinkState(NvmlDevice*, unsigned link, unsigned* active) {
  if (link >= 12) return kInvalid;
  *active = switched() || link < 4 ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(NvmlDevice*, unsigned, unsigned* type) {
  *type = switched() ? 2 : 0;
  return kSuccess;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(NvmlDevice* device, unsigned, NvmlPciInfo* pci) {
  if (switched()) return kNotSupported;
  put_pci(pci, 1 - device->index);
  return kSuccess;
}
int nvmlDeviceGetTopologyCommonAncestor(NvmlDevice*, NvmlDevice*, unsigned* level) {
  *level = 50;
  return kSuccess;
}
int nvmlDeviceGetP2PStatus(NvmlDevice*, NvmlDevice*, unsigned, unsigned* status) {
  *status = trouble("p2p") ? 1 : 0;
  return kSuccess;
}
}
