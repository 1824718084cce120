// Operations of several steps: coroutines of in-order collectives.
#pragma once

#include "core/engine/execute/batch/batch.h"
#include "core/engine/execute/compress/codec_store.h"
#include "core/engine/execute/gpu/gpu_memory.h"
#include "core/engine/execute/host_memory.h"
#include "xoe/communicator.h"

namespace xoe::engine {

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
  CodecStore codecs;
};

// Runs an operation that is not fused. The task refers to both arguments, which must outlive it.
Task run_whole(OpContext& context, Batch& batch);

}  // namespace xoe::engine
