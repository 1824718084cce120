#include "core/backend/nccl/device.h"

#include <unistd.h>

#include <cstring>

#include "core/base/error.h"

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
  (void)cuda.get_last_error();
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

// The mode is changed while the context is current: in a thread without one the call might make one on GPU 0.
DeviceScope::DeviceScope(const Libraries& libraries, int device) noexcept : cuda_(libraries.cuda) {
  int now = -1;
  if (cuda_.get_device(&now) != CudaError::kSuccess || now != device) {
    pushed_ = libraries.context != nullptr && cuda_.context_push_current(libraries.context) == 0;
    if (!pushed_) {
      before_ = now;
      (void)cuda_.set_device(device);
    }
  }
  (void)cuda_.thread_exchange_capture_mode(&mode_);
}

DeviceScope::~DeviceScope() {
  (void)cuda_.thread_exchange_capture_mode(&mode_);
  CudaContext own = nullptr;
  if (pushed_) (void)cuda_.context_pop_current(&own);
  if (before_ >= 0) (void)cuda_.set_device(before_);
}

CudaContext retain_context(const CudaApi& cuda, int device) noexcept {
  CudaContext context = nullptr;
  int handle = 0;
  if (cuda.device_get == nullptr || cuda.device_primary_context_retain == nullptr ||
      cuda.context_push_current == nullptr || cuda.context_pop_current == nullptr)
    return nullptr;
  if (cuda.device_get(&handle, device) != 0 || cuda.device_primary_context_retain(&context, handle) != 0)
    return nullptr;
  return context;
}

Result<std::shared_ptr<const void>> record_event(const std::shared_ptr<const Libraries>& libraries, int device,
                                                 CudaStream stream) {
  CudaEvent event = nullptr;
  XOE_CUDA(libraries->cuda, event_create_with_flags, &event, kCudaEventDisableTiming);
  std::shared_ptr<const void> mark(event, [libraries, device, owner = ::getpid()](const void* held) {
    if (owner != ::getpid()) return;            // a forked child may not call CUDA
    const DeviceScope own(*libraries, device);  // of whichever thread drops the last one
    (void)libraries->cuda.event_destroy(static_cast<CudaEvent>(const_cast<void*>(held)));
  });
  XOE_CUDA(libraries->cuda, event_record, event, stream);
  return mark;
}

Status check_not_capturing(const CudaApi& cuda, CudaStream stream) {
  CudaCapture capture = CudaCapture::kNone;
  const CudaError error = cuda.stream_is_capturing(stream, &capture);
  if (error == CudaError::kSuccess && capture == CudaCapture::kNone) return {};
  if (error != CudaError::kSuccess && error != CudaError::kStreamCaptureImplicit)
    return cuda_status(cuda, error, "stream_is_capturing");
  (void)cuda.get_last_error();
  return failure(
      Code::kUnsupported,
      "a CUDA graph is being captured in its stream, and no graph can hold an operation of Xoe, in which the "
      "host takes part; call it before or after the capture (torch.cuda.graph)");
}

CudaError query_event(const CudaApi& cuda, CudaEvent event) noexcept {
  const CudaError state = cuda.event_query(event);
  if (state != CudaError::kSuccess) (void)cuda.get_last_error();
  return state;
}

}  // namespace xoe::nccl
