// Copies between pinned host memory and this rank's GPU, in two streams.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "core/backend/nccl/libraries.h"
#include "core/backend/net/gpu_staging.h"

namespace xoe::nccl {

class Staging final : public net::GpuStaging {
 public:
  // See Provider::make_staging(). REQUIRES, here and below: the thread's device is this rank's.
  static Result<std::unique_ptr<Staging>> make(std::shared_ptr<const Libraries> libraries, std::size_t slots,
                                               std::size_t slot_bytes, std::function<void()> ring);
  ~Staging() override;

  std::byte* memory() const noexcept override { return memory_; }
  Status start(net::GpuDirection direction, std::size_t slot, std::span<const net::GpuCopy> copies,
               std::span<const void* const> after) override;
  Result<bool> done(net::GpuDirection direction, std::size_t slot) override;

 private:
  struct Lane {
    CudaStream stream = nullptr;
    std::vector<CudaEvent> done = {};  // by slot
  };

  Staging(std::shared_ptr<const Libraries> libraries, std::function<void()> ring);
  Status allocate(std::size_t slots, std::size_t bytes);
  Lane& lane(net::GpuDirection direction) { return lanes_[static_cast<std::size_t>(direction)]; }

  const std::shared_ptr<const Libraries> libraries_;
  const std::shared_ptr<const std::function<void()>> ring_;  // shared with calls that CUDA still has to make
  std::array<Lane, 2> lanes_;                                // by direction
  std::byte* memory_ = nullptr;
};

}  // namespace xoe::nccl
