// Finds and loads NCCL, the CUDA runtime and NVML: nothing of them is needed to build Xoe or to start it.
#pragma once

#include <optional>

#include "backend/nccl/cuda_api.h"
#include "backend/nccl/nccl_api.h"
#include "backend/nccl/nvml_api.h"
#include "base/env.h"
#include "xoe/status.h"

namespace xoe::nccl {

struct Libraries {
  NcclApi nccl;
  int nccl_version = 0;
  NcclFeatures features;
  CudaApi cuda;
  std::optional<NvmlApi> nvml;
};

// NCCL: XOE_NCCL_LIBRARY if it is set, else where the loader looks, else NVIDIA's wheels of the Python of VIRTUAL_ENV,
// CONDA_PREFIX or PATH. `unsupported` with the loader's words, or naming a function that is missing.
Result<NcclApi> load_nccl(const Env& env);
// libcudart.so.13 or .12, likewise, without a variable of its own.
Result<CudaApi> load_cuda(const Env& env);
// nullopt where the driver brought none.
std::optional<NvmlApi> load_nvml();

// Asks NCCL for its version; `unsupported` below 2.7.
Result<Libraries> make_libraries(NcclApi nccl, CudaApi cuda, std::optional<NvmlApi> nvml);

}  // namespace xoe::nccl
