// libxoe-nccl.so: loads without any of NVIDIA's libraries; opening it reports which are missing.
#include "backend/net/plugin.h"

#include "backend/nccl/libraries.h"
#include "backend/nccl/provider.h"
#include "base/error.h"

namespace xoe::nccl {
namespace {

Result<std::unique_ptr<net::Provider>> open_provider(const net::NetOptions& options) {
  const Env env = Env::process();
  XOE_ASSIGN(const ProviderOptions own, read_provider_options(env, options.local_rank));
  XOE_ASSIGN(const CudaApi cuda, load_cuda(env));
  XOE_ASSIGN(const NcclApi nccl, load_nccl(env));
  const auto nvml = load_nvml();
  XOE_ASSIGN(Libraries libraries, make_libraries(nccl, cuda, nvml ? std::optional(*nvml) : std::nullopt));
  return make_provider(libraries, own);
}

}  // namespace
}  // namespace xoe::nccl

XOE_NET_PLUGIN(xoe::nccl::open_provider)
