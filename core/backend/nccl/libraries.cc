#include "core/backend/nccl/libraries.h"

#include <utility>

#include "core/base/error.h"

namespace xoe::nccl {

Result<Libraries> make_libraries(NcclApi nccl, CudaApi cuda, std::optional<NvmlApi> nvml) {
  int version = 0;
  if (const NcclResult result = nccl.get_version(&version); result != NcclResult::kSuccess)
    return failure(Code::kUnsupported, "NCCL does not report its version: {}", nccl.get_error_string(result));
  if (version < nccl_version(2, 7, 0))
    return failure(Code::kUnsupported, "NCCL {} is too old; version 2.7 or later is needed",
                   nccl_version_text(version));
  return Libraries{.nccl = nccl,
                   .nccl_version = version,
                   .nccl_missing = {},
                   .features = nccl_features(nccl, version),
                   .cuda = cuda,
                   .nvml = nvml};
}

Libraries without_nccl(CudaApi cuda, std::optional<NvmlApi> nvml, std::string why) {
  return {.nccl = {}, .nccl_version = 0, .nccl_missing = std::move(why), .features = {}, .cuda = cuda, .nvml = nvml};
}

}  // namespace xoe::nccl
