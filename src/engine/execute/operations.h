// Operations of several steps: coroutines of in-order collectives.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/execute/batch.h"
#include "engine/execute/compress/codec.h"
#include "engine/execute/gpu/gpu_memory.h"
#include "engine/execute/host_memory.h"
#include "xoe/communicator.h"

namespace xoe::engine {

// The codecs of an operation's tensors.
struct Codecs {
  std::uint64_t signature = 0;  // of the operation that they were made for
  std::vector<std::unique_ptr<Codec>> of_tensor;
};

// What a process set's operations share.
struct OpContext {
  OpContext(Communicator& communicator, GpuCommunicator& gpu_communicator)
      : comm(communicator), host(communicator), gpu(communicator, gpu_communicator) {}

  TargetMemory& memory_of(const OpSpec& op) noexcept {
    return op.gpu ? static_cast<TargetMemory&>(gpu) : static_cast<TargetMemory&>(host);
  }

  Communicator& comm;
  HostMemory host;
  GpuMemory gpu;
  std::map<std::string, Codecs, std::less<>> codecs = {};  // by the operation's name
};

// Runs an operation that is not fused. The task refers to both arguments, which must outlive it.
Task run_whole(OpContext& context, Batch& batch);

}  // namespace xoe::engine
