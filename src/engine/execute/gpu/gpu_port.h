// This process's way to its GPU.
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

// NCCL, loaded when somebody asks for it first: a job without GPU tensors has nothing to do with it. Any thread.
class GpuPort {
 public:
  using Open = std::function<Result<std::unique_ptr<net::Provider>>()>;
  // timeout: of a collective.
  explicit GpuPort(Open open, std::chrono::nanoseconds timeout = kDefaultTimeout)
      : timeout_(timeout), open_(std::move(open)) {}
  // As XOE_GPU has it: auto or nccl, and host for none; with XOE_TIMEOUT.
  static std::shared_ptr<GpuPort> of_process(const Env& env, int local_rank);

  // The same answer every time.
  Result<net::Provider*> provider();
  std::chrono::nanoseconds timeout() const noexcept { return timeout_; }

 private:
  const std::chrono::nanoseconds timeout_;
  std::mutex mutex_;
  Open open_;
  std::optional<Result<std::unique_ptr<net::Provider>>> opened_;
};

}  // namespace xoe::engine
