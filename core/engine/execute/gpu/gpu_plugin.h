// CUDA and NCCL for this process's GPU.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/backend/backend.h"
#include "core/backend/net/net.h"
#include "core/base/env.h"
#include "xoe/status.h"

namespace xoe::engine {

struct GpuSettings {
  std::string requested = "auto";                      // auto, nccl, staged
  bool encrypts = false;                               // what leaves this host
  std::size_t staging_bytes = std::size_t{8} << 20;    // of pinned memory, for each process set that needs it
  std::chrono::nanoseconds timeout = kDefaultTimeout;  // of each collective
  bool waits_in_stream = false;  // XOE_GPU_WAIT=stream: EngineHandle::wait_in_stream() may return early
};

// The plug-in, loaded at the first call: a job without GPU tensors does not load CUDA. Any thread.
class GpuPlugin {
 public:
  using Open = std::function<Result<std::unique_ptr<net::Provider>>()>;
  explicit GpuPlugin(Open open, GpuSettings settings = {}) : settings_(std::move(settings)), open_(std::move(open)) {}
  // Reads XOE_GPU (auto, nccl or staged; or host for none), XOE_GPU_STAGING, XOE_GPU_WAIT, XOE_ENCRYPT and XOE_TIMEOUT.
  static std::shared_ptr<GpuPlugin> of_process(const Env& env, int local_rank);

  // The same result every time.
  Result<net::Provider*> provider();
  const GpuSettings& settings() const noexcept { return settings_; }

 private:
  const GpuSettings settings_;
  std::mutex mutex_;
  Open open_;
  std::optional<Result<std::unique_ptr<net::Provider>>> opened_;
};

}  // namespace xoe::engine
