// GPU memory for collectives in which this rank passes none: it joined without the tensor, or discards the result.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/nccl/libraries.h"
#include "xoe/status.h"

namespace xoe::nccl {

class PlaceholderBuffers {
 public:
  PlaceholderBuffers(std::shared_ptr<const Libraries> libraries, int device);
  ~PlaceholderBuffers();

  // The collective with memory in place of each null buffer. Input of a reduction is filled, in `stream`, with the
  // operation's neutral element. `segments` stores the result's list. One collective at a time: the memory is reused.
  // REQUIRES: the thread's device is this rank's.
  Result<Collective> substitute(const Collective& collective, std::vector<Segment>& segments, CudaStream stream);

 private:
  Result<std::byte*> allocate(std::size_t bytes);

  const std::shared_ptr<const Libraries> libraries_;
  const int device_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<double> neutral_;  // copied to the GPU; aligned for every type
};

}  // namespace xoe::nccl
