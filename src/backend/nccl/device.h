// This rank's GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/nccl/libraries.h"
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

// The n-th GPU for local rank n, or the only one that is there: where a scheduler or CUDA_VISIBLE_DEVICES gives each
// rank its own. visible: CUDA_VISIBLE_DEVICES, for the message. `unavailable` without a GPU or a driver,
// `resource_exhausted` when there are more ranks than GPUs.
Result<Device> choose_device(const CudaApi& cuda, int local_rank, const std::string& visible);

// The processes that compute on it; none where NVML does not tell.
std::vector<int> compute_processes(const NvmlApi& nvml, const Device& device);

// Every process has one process id for NVML and for itself.
bool sees_all_processes();

// The thread's device, until the end of the scope.
class OnDevice {
 public:
  OnDevice(const CudaApi& cuda, int device) noexcept;
  OnDevice(const OnDevice&) = delete;
  ~OnDevice();

 private:
  const CudaApi& cuda_;
  int before_ = -1;
};

// CUDA would fault on the GPU, and all that the process has there with it, on memory that is not the device's: of the
// host, or of another GPU. `what` names it in the error.
Status check_place(const CudaApi& cuda, const Device& device, const void* address, std::string_view what);

// `what` failed with `error`: `unavailable` with CUDA's words, or `resource_exhausted` when memory is short.
Status cuda_status(const CudaApi& cuda, CudaError error, const char* what);

}  // namespace xoe::nccl

#define XOE_CUDA(cuda, function, ...) XOE_TRY(::xoe::nccl::cuda_status(cuda, (cuda).function(__VA_ARGS__), #function))
