// NCCL for this process's GPU.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "backend/net/net.h"
#include "base/env.h"
#include "xoe/status.h"

namespace xoe::engine {

// The plug-in, loaded at the first call: a job without GPU tensors does not load NCCL. Any thread.
class GpuPlugin {
 public:
  using Open = std::function<Result<std::unique_ptr<net::Provider>>()>;
  // timeout: of each collective.
  explicit GpuPlugin(Open open, std::chrono::nanoseconds timeout = kDefaultTimeout)
      : timeout_(timeout), open_(std::move(open)) {}
  // As XOE_GPU (auto or nccl, or host for none) and XOE_TIMEOUT say.
  static std::shared_ptr<GpuPlugin> of_process(const Env& env, int local_rank);

  // The same result every time.
  Result<net::Provider*> provider();
  std::chrono::nanoseconds timeout() const noexcept { return timeout_; }

 private:
  const std::chrono::nanoseconds timeout_;
  std::mutex mutex_;
  Open open_;
  std::optional<Result<std::unique_ptr<net::Provider>>> opened_;
};

}  // namespace xoe::engine
