#include "core/engine/execute/gpu/gpu_plugin.h"

#include "core/backend/choose_backend.h"
#include "core/backend/gpu_transport.h"
#include "core/backend/net/plugin.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::engine {

namespace {

constexpr std::uint64_t kMinStaging = std::uint64_t{64} << 10, kMaxStaging = std::uint64_t{1} << 30;

struct StagingBytes {
  std::size_t bytes = GpuSettings().staging_bytes;
  std::string malformed = {};
};

StagingBytes read_staging(const Env& env) {
  const auto text = env.text("XOE_GPU_STAGING");
  if (!text) return {};
  const auto bytes = parse_bytes(*text);
  if (bytes && *bytes >= kMinStaging && *bytes <= kMaxStaging) return {.bytes = static_cast<std::size_t>(*bytes)};
  return {.malformed = fmt::format("environment variable XOE_GPU_STAGING={}: expected 64K to 1G", *text)};
}

}  // namespace

std::shared_ptr<GpuPlugin> GpuPlugin::of_process(const Env& env, int local_rank) {
  const std::string requested = requested_gpu_transport(env);
  const std::string folder = env.text("XOE_PLUGIN_DIR").value_or("");
  const StagingBytes staging = read_staging(env);
  const std::string waits = env.text("XOE_GPU_WAIT").value_or("host");
  const bool ordered = env.text("XOE_DETERMINISTIC") == kPlacementFree;
  const auto open = [=]() -> Result<std::unique_ptr<net::Provider>> {
    if (requested == "host") return failure(Code::kUnsupported, "GPU memory is not taken: XOE_GPU=host");
    if (requested != "auto" && requested != "nccl" && requested != "staged")
      return failure(Code::kInvalidArgument, "environment variable XOE_GPU={}: expected auto, nccl, staged, host",
                     requested);
    if (requested == "nccl" && ordered)
      return failure(Code::kInvalidArgument,
                     "XOE_GPU=nccl with XOE_DETERMINISTIC=placement-free: NCCL combines ranks in an order of its own; "
                     "unset one of them");
    if (waits != "host" && waits != "stream")
      return failure(Code::kInvalidArgument, "environment variable XOE_GPU_WAIT={}: expected host, stream", waits);
    if (!staging.malformed.empty()) return failure(Code::kInvalidArgument, staging.malformed);
    auto opened = net::open_plugin("nccl", {.local_rank = local_rank, .gpu = requested}, folder);
    if (opened) return opened;
    return failure(Code::kUnsupported, "GPU memory is not taken: {}", opened.error().message());
  };
  GpuSettings settings{.requested = requested,
                       .encrypts = env.text(kEncryptVariable) == "1",
                       .staging_bytes = staging.bytes,
                       .waits_in_stream = waits == "stream"};
  // init() has refused malformed values.
  if (const auto seconds = env.seconds("XOE_TIMEOUT").value_or(std::nullopt))
    settings.timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(*seconds));
  return std::make_shared<GpuPlugin>(open, settings);
}

Result<net::Provider*> GpuPlugin::provider() {
  const std::lock_guard lock(mutex_);
  if (!opened_) opened_.emplace(open_());
  if (!*opened_) return failure(opened_->error());
  return (*opened_)->get();
}

}  // namespace xoe::engine
