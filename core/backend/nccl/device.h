// This rank's GPU.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/nccl/libraries.h"
#include "xoe/status.h"

namespace xoe::nccl {

struct Device {
  int index = 0;  // among those that CUDA shows this process
  std::string uuid = {};
  std::string bus = {};
  std::string name = {};

  std::string text() const;  // "GPU 0 (NVIDIA H200, GPU-8f1c..., 0000:3b:00.0)"
};

// "GPU-" and the groups of hexadecimal digits that nvidia-smi shows.
std::string uuid_text(const unsigned char (&uuid)[16]);

// The n-th GPU for local rank n, or the only one that is visible, as when a scheduler or CUDA_VISIBLE_DEVICES gives
// each rank its own. visible: CUDA_VISIBLE_DEVICES, for the message. shared: ranks beyond the last GPU begin with the
// first one again. `unavailable` without a GPU or a driver, `resource_exhausted` when there are more ranks than GPUs.
Result<Device> choose_device(const CudaApi& cuda, int local_rank, const std::string& visible, bool shared = false);

// The processes that compute on it; empty where NVML does not report them.
std::vector<int> compute_processes(const NvmlApi& nvml, const Device& device);

// Whether this process is in the first PID namespace, so that NVML reports the process ids that it sees itself.
bool sees_all_processes();

// Until the end of the scope this rank's GPU is the thread's current one, and the thread's calls do not spoil a graph
// that another thread captures. Then all is as before: the thread has no current context if it had none, since setting
// its device back would create one on that GPU, of some hundred MiB.
class DeviceScope {
 public:
  DeviceScope(const Libraries& libraries, int device) noexcept;
  DeviceScope(const DeviceScope&) = delete;
  ~DeviceScope();

 private:
  const CudaApi& cuda_;
  CudaCaptureMode mode_ = CudaCaptureMode::kRelaxed;
  bool pushed_ = false;
  int before_ = -1;  // where contexts cannot be pushed
};

// Returns the context for Libraries::context, or null if the driver lacks the functions.
CudaContext retain_context(const CudaApi& cuda, int device) noexcept;

// An event behind the work that is in the stream now, destroyed with its last owner. REQUIRES: a DeviceScope.
Result<std::shared_ptr<const void>> record_event(const std::shared_ptr<const Libraries>& libraries, int device,
                                                 CudaStream stream);

// `unsupported` while the stream's work becomes part of a CUDA graph.
Status check_not_capturing(const CudaApi& cuda, CudaStream stream);

// cudaEventQuery() whose answer, such as "not ready", does not stay behind as this thread's last error: PyTorch would
// find it after its next kernel.
CudaError query_event(const CudaApi& cuda, CudaEvent event) noexcept;

// `invalid_argument` for memory of the host or of another GPU, which would make kernels fault, and with them everything
// that the process has on the GPU. `what` names it in the error.
Status check_memory_of(const CudaApi& cuda, const Device& device, const void* address, std::string_view what);

// The status of a call `what`: `resource_exhausted` when memory is short, else `unavailable` with CUDA's message. It
// clears the thread's last error, which the status now carries.
Status cuda_status(const CudaApi& cuda, CudaError error, const char* what);

}  // namespace xoe::nccl

#define XOE_CUDA(cuda, function, ...) XOE_TRY(::xoe::nccl::cuda_status(cuda, (cuda).function(__VA_ARGS__), #function))
