// Pinned host memory, and copies between it and this rank's GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "xoe/status.h"

namespace xoe::net {

struct GpuCopy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

enum class GpuDirection : std::uint8_t { kToHost, kToGpu };

// One thread at a time. The destructor keeps the pinned memory if copies still run, because the GPU may be stuck.
class GpuStaging {
 public:
  virtual ~GpuStaging() = default;

  // Aligned for every element type; slot n begins at n times the size of a slot.
  virtual std::byte* memory() const noexcept = 0;
  // Starts copies between a slot and the GPU. They run after the work before the marks `after` (of Provider::admit()),
  // after copies in the same direction that were started before and, to the host, after those that empty the slot.
  virtual Status start(GpuDirection direction, std::size_t slot, std::span<const GpuCopy> copies,
                       std::span<const void* const> after) = 0;
  // Whether all copies of the slot in this direction are done. `unavailable`: the GPU has failed.
  virtual Result<bool> done(GpuDirection direction, std::size_t slot) = 0;
};

}  // namespace xoe::net
