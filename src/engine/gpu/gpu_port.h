// This process's way to its GPU.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backend/net/net.h"
#include "base/env.h"
#include "xoe/status.h"

namespace xoe::engine {

// NCCL, loaded when somebody asks for it first: a job without GPU tensors has nothing to do with it. Any thread.
class GpuPort {
 public:
  using Open = std::function<Result<std::unique_ptr<net::Provider>>()>;
  explicit GpuPort(Open open) : open_(std::move(open)) {}
  // As XOE_GPU has it: auto or nccl, and host for none.
  static std::shared_ptr<GpuPort> of_process(const Env& env, int local_rank);

  // The same answer every time.
  Result<net::Provider*> provider();

 private:
  std::mutex mutex_;
  Open open_;
  std::optional<Result<std::unique_ptr<net::Provider>>> opened_;
};

}  // namespace xoe::engine
