// How the ranks of a group reduce GPU memory: a pure function of what they tell each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/env.h"
#include "xoe/status.h"

namespace xoe {

enum class GpuTransport : std::uint8_t {
  kNccl,    // NCCL works on tensors where they lie
  kStaged,  // tensors pass through pinned host memory, and the backend for host memory reduces them
};

// XOE_GPU: auto, nccl, staged, host, or what is no transport. NCCL combines ranks in an order of its own, so where the
// user wants one that does not depend on the placement, auto is staged.
std::string requested_gpu_transport(const Env& env);

std::string_view gpu_transport_name(GpuTransport transport) noexcept;  // "nccl"

// One rank and its GPU.
struct RankGpu {
  std::string requested = "auto";  // requested_gpu_transport(): auto, nccl, staged
  int rank = 0;                    // of the job
  int pid = 0;
  std::string host = {};          // its name
  std::string boot = {};          // of the machine, the same in all its containers; empty: not known
  std::string uuid = {};          // of the GPU
  std::string bus = {};           // its PCI address, the same for all instances (MIG) of a GPU
  std::string nccl = {};          // its version; empty: there is none
  std::string nccl_missing = {};  // why
  bool nccl_shares_gpus = false;  // NCCL was told to take a GPU for several ranks
  bool encrypts = false;          // its user wants what leaves the host to be encrypted, which NCCL cannot
  std::size_t staging_bytes = 0;  // of pinned host memory

  std::string name() const;  // "rank 3 (nodeB, pid 4410)"
  std::string encode() const;
  static Result<RankGpu> decode(std::string_view text);
};

struct GpuChoice {
  GpuTransport transport = GpuTransport::kNccl;
  std::string why = {};           // for kStaged
  std::size_t staging_bytes = 0;  // the least of all ranks
};

// Whether NCCL takes both for one GPU: the same, or (on one machine) at the same PCI address, as instances (MIG) are.
bool same_gpu(const RankGpu& one, const RankGpu& other);

// NCCL where every rank has the same version and a GPU of its own; else staging. An error where a rank asks for NCCL
// and it cannot be, naming the ranks. The same for all ranks.
Result<GpuChoice> choose_gpu_transport(std::span<const RankGpu> ranks);

}  // namespace xoe
