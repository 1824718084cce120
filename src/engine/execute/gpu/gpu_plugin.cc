#include "engine/execute/gpu/gpu_plugin.h"

#include "backend/net/plugin.h"
#include "base/error.h"

namespace xoe::engine {

std::shared_ptr<GpuPlugin> GpuPlugin::of_process(const Env& env, int local_rank) {
  const std::string wish = env.text("XOE_GPU").value_or("auto");
  const std::string folder = env.text("XOE_PLUGIN_DIR").value_or("");
  const auto open = [wish, folder, local_rank]() -> Result<std::unique_ptr<net::Provider>> {
    if (wish == "host") return failure(Code::kUnsupported, "GPU memory is not taken: XOE_GPU=host");
    if (wish != "auto" && wish != "nccl")
      return failure(Code::kInvalidArgument, "environment variable XOE_GPU={}: expected auto, nccl, host", wish);
    auto opened = net::open_plugin("nccl", {.local_rank = local_rank}, folder);
    if (opened) return opened;
    return failure(Code::kUnsupported, "GPU memory is not taken: {}", opened.error().message());
  };
  const auto seconds = env.seconds("XOE_TIMEOUT").value_or(std::nullopt);  // init() has refused malformed values
  if (!seconds) return std::make_shared<GpuPlugin>(open);
  return std::make_shared<GpuPlugin>(
      open, std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(*seconds)));
}

Result<net::Provider*> GpuPlugin::provider() {
  const std::lock_guard lock(mutex_);
  if (!opened_) opened_.emplace(open_());
  if (!*opened_) return failure(opened_->error());
  return (*opened_)->get();
}

}  // namespace xoe::engine
