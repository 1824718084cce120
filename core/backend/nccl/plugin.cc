// libxoe-nccl.so: loads without any of NVIDIA's libraries; opening it reports which are missing.
#include "core/backend/net/plugin.h"

#include <utility>

#include "core/backend/nccl/libraries.h"
#include "core/backend/nccl/provider.h"
#include "core/base/error.h"

namespace xoe::nccl {
namespace {

// gpu: see NetOptions.
Result<Libraries> open_libraries(const Env& env, std::string_view gpu) {
  XOE_ASSIGN(const CudaApi cuda, load_cuda(env));
  const auto loaded = load_nvml();
  const auto nvml = loaded ? std::optional(*loaded) : std::nullopt;
  if (gpu == "staged") return without_nccl(cuda, nvml, "XOE_GPU=staged");
  const auto nccl = load_nccl(env);
  auto libraries = nccl ? make_libraries(*nccl, cuda, nvml) : Result<Libraries>(failure(nccl.error()));
  if (libraries || gpu == "nccl") return libraries;
  return without_nccl(cuda, nvml, libraries.error().message());
}

Result<std::unique_ptr<net::Provider>> open_provider(const net::NetOptions& options) {
  const Env env = Env::process();
  XOE_ASSIGN(ProviderOptions own, read_provider_options(env, options.local_rank));
  own.ranks_share_gpus = options.gpu != "nccl";
  XOE_ASSIGN(Libraries libraries, open_libraries(env, options.gpu));
  return make_provider(std::move(libraries), std::move(own));
}

}  // namespace
}  // namespace xoe::nccl

XOE_NET_PLUGIN(xoe::nccl::open_provider)
