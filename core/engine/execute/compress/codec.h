// Compression of an allreduce on the wire, at the price of exactness.
#pragma once

#include <span>

#include "core/engine/execute/batch/task.h"
#include "xoe/communicator.h"

namespace xoe::engine {

// One tensor's codec on one rank: it keeps state for the next step (residuals, the last factors). All ranks use
// the same codec with the same settings for a tensor. One thread at a time.
class Codec {
 public:
  virtual ~Codec() = default;
  // values[i] becomes the sum over ranks of values[i], within the error of the codec: the same bits on every rank.
  // The memory stays in use until the task is done. The task starts its collectives on `comm` one after the other.
  virtual Task allreduce(Communicator& comm, std::span<float> values) = 0;
};

}  // namespace xoe::engine
