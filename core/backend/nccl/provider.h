// NCCL in this process, on the GPU that belongs to this rank.
#pragma once

#include <memory>
#include <string>

#include "core/backend/nccl/device.h"
#include "core/backend/nccl/libraries.h"
#include "core/backend/net/net.h"

namespace xoe::nccl {

struct ProviderOptions {
  int local_rank = 0;
  std::string visible = {};        // CUDA_VISIBLE_DEVICES
  bool shares_gpu = false;         // with processes that are not ranks of this job
  bool sees_processes = true;      // NVML's process ids are those of this process
  bool registers_buffers = false;  // registers the callers' buffers with NCCL
  bool ranks_share_gpus = false;   // where a host has more ranks than GPUs
  bool many_ranks = false;         // NCCL takes a GPU for several ranks, if it can
};

// XOE_NCCL_SHARE_GPU and XOE_NCCL_REGISTER, 0 or 1; CUDA_VISIBLE_DEVICES; NCCL_MULTI_RANK_GPU_ENABLE.
Result<ProviderOptions> read_provider_options(const Env& env, int local_rank);

Result<std::unique_ptr<net::Provider>> make_provider(Libraries libraries, ProviderOptions options);

}  // namespace xoe::nccl
