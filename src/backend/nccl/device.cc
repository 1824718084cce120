#include "backend/nccl/device.h"

#include <unistd.h>

#include <cstring>

#include "base/error.h"

namespace xoe::nccl {
namespace {

constexpr const char* kFirstPidNamespace = "pid:[4026531836]";  // PROC_PID_INIT_INO of Linux

}  // namespace

std::string Device::text() const { return fmt::format("GPU {} ({}, {}, {})", index, name, uuid, bus); }

std::string uuid_text(const unsigned char (&uuid)[16]) {
  std::string text = "GPU";
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid[i]);
  }
  return text;
}

Status cuda_status(const CudaApi& cuda, CudaError error, const char* what) {
  if (error == CudaError::kSuccess) return {};
  const Code code = error == CudaError::kMemoryAllocation ? Code::kResourceExhausted : Code::kUnavailable;
  return failure(code, "CUDA: {}: {} (error {})", what, cuda.get_error_string(error), static_cast<int>(error));
}

Result<Device> choose_device(const CudaApi& cuda, int local_rank, const std::string& visible, bool shared) {
  const std::string limited = visible.empty() ? "" : fmt::format(" (CUDA_VISIBLE_DEVICES={})", visible);
  int count = 0;
  const CudaError error = cuda.get_device_count(&count);
  if (error == CudaError::kInsufficientDriver)
    return failure(Code::kUnavailable,
                   "no GPU: the NVIDIA driver is missing, or older than the CUDA runtime; see nvidia-smi");
  if (error == CudaError::kNoDevice || (error == CudaError::kSuccess && count == 0))
    return failure(Code::kUnavailable, "no GPU: CUDA shows none to this process{}", limited);
  XOE_TRY(cuda_status(cuda, error, "get_device_count"));
  if (count > 1 && local_rank >= count && !shared)
    return failure(Code::kResourceExhausted,
                   "local rank {} has no GPU: CUDA shows {} to this process{}; start {} ranks on this host", local_rank,
                   count, limited, count);
  Device device{.index = local_rank % count};
  CudaProperties properties{};
  char bus[32] = {};
  XOE_CUDA(cuda, get_device_properties, &properties, device.index);
  XOE_CUDA(cuda, device_get_pci_bus_id, bus, sizeof bus, device.index);
  device.uuid = uuid_text(properties.uuid);
  device.bus = bus;
  device.name.assign(properties.name, ::strnlen(properties.name, sizeof properties.name));
  return device;
}

std::vector<int> compute_processes(const NvmlApi& nvml, const Device& device) {
  if (nvml.compute_processes == nullptr || nvml.init() != NvmlResult::kSuccess) return {};
  std::vector<NvmlProcess> processes(32);
  unsigned count = 0;
  NvmlDevice handle = nullptr;
  NvmlResult result = nvml.device_by_uuid(device.uuid.c_str(), &handle);
  if (result == NvmlResult::kSuccess) {
    // Processes may start between two calls.
    for (int turn = 0; turn < 4; ++turn) {
      count = static_cast<unsigned>(processes.size());
      result = nvml.compute_processes(handle, &count, processes.data());
      if (result != NvmlResult::kInsufficientSize) break;
      processes.resize(count + 32);
    }
  }
  (void)nvml.shutdown();
  std::vector<int> pids;
  if (result != NvmlResult::kSuccess) return pids;
  for (unsigned i = 0; i < count; ++i) pids.push_back(static_cast<int>(processes[i].pid));
  return pids;
}

bool sees_all_processes() {
  char name[64] = {};
  return ::readlink("/proc/self/ns/pid", name, sizeof name - 1) > 0 && std::strcmp(name, kFirstPidNamespace) == 0;
}

Status check_memory_of(const CudaApi& cuda, const Device& device, const void* address, std::string_view what) {
  CudaPointer place{};
  XOE_CUDA(cuda, pointer_get_attributes, &place, address);
  if (place.memory == CudaMemory::kManaged) return {};
  if (place.memory != CudaMemory::kDevice)
    return failure(Code::kInvalidArgument, "nccl: {} was passed as GPU memory, but is host memory", what);
  if (place.device != device.index)
    return failure(Code::kInvalidArgument,
                   "nccl: {} is on GPU {}, but this rank's is {}; create tensors there, or see XOE_GPU=host", what,
                   place.device, device.text());
  return {};
}

DeviceScope::DeviceScope(const CudaApi& cuda, int device) noexcept : cuda_(cuda) {
  int now = -1;
  if (cuda_.get_device(&now) == CudaError::kSuccess && now == device) return;
  before_ = now;
  (void)cuda_.set_device(device);
}

DeviceScope::~DeviceScope() {
  if (before_ >= 0) (void)cuda_.set_device(before_);
}

}  // namespace xoe::nccl
