// GPU memory in place of what a rank does not have, or does not want.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/nccl/libraries.h"
#include "xoe/status.h"

namespace xoe::nccl {

class StandIn {
 public:
  StandIn(std::shared_ptr<const Libraries> libraries, int device);
  ~StandIn();

  // The collective with memory wherever it has none; input that is reduced is filled, in `stream`, with what changes
  // nothing. `segments` keeps its list. One at a time: the memory is the next one's too.
  // REQUIRES: the thread's device is this rank's.
  Result<Collective> complete(const Collective& collective, std::vector<Segment>& segments, CudaStream stream);

 private:
  Result<std::byte*> allocate(std::size_t bytes);

  const std::shared_ptr<const Libraries> libraries_;
  const int device_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<double> neutral_;  // as it is copied to the GPU; aligned for every type
};

}  // namespace xoe::nccl
