// The vendor libraries that the backend calls.
#pragma once

#include <optional>

#include "drivers/cuda/cuda.h"
#include "drivers/nccl/nccl.h"
#include "drivers/nvml/nvml.h"
#include "xoe/status.h"

namespace xoe::nccl {

struct Libraries {
  NcclApi nccl;
  int nccl_version = 0;
  NcclFeatures features;
  CudaApi cuda;
  std::optional<NvmlApi> nvml;
};

// Queries NCCL's version; `unsupported` below 2.7.
Result<Libraries> make_libraries(NcclApi nccl, CudaApi cuda, std::optional<NvmlApi> nvml);

}  // namespace xoe::nccl
