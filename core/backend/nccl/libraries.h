// The vendor libraries that the backend calls.
#pragma once

#include <optional>
#include <string>

#include "core/drivers/cuda/cuda.h"
#include "core/drivers/nccl/nccl.h"
#include "core/drivers/nvml/nvml.h"
#include "xoe/status.h"

namespace xoe::nccl {

struct Libraries {
  NcclApi nccl;
  int nccl_version = 0;           // 0: there is no NCCL, and `nccl` is empty
  std::string nccl_missing = {};  // why
  NcclFeatures features;
  CudaApi cuda;
  std::optional<NvmlApi> nvml;
  CudaContext context = nullptr;  // the one that the runtime uses on this rank's GPU; null: the driver's is not known
};

// Queries NCCL's version; `unsupported` below 2.7.
Result<Libraries> make_libraries(NcclApi nccl, CudaApi cuda, std::optional<NvmlApi> nvml);

// For staging alone.
Libraries without_nccl(CudaApi cuda, std::optional<NvmlApi> nvml, std::string why);

}  // namespace xoe::nccl
