// The choice of a job's backend: a pure function of its ranks' hosts and the user's settings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe {

// The value of XOE_DETERMINISTIC for reductions with the bits of one host.
inline constexpr std::string_view kPlacementFree = "placement-free";

// 1: what leaves this host is encrypted.
inline constexpr const char* kEncryptVariable = "XOE_ENCRYPT";

struct BackendRequest {
  std::string backend = "auto";             // XOE_BACKEND: auto, shm, hierarchical, gloo, mpi, nccl
  std::string net = "auto";                 // XOE_NET: auto, gloo, mpi, nccl: the net between hosts
  std::string deterministic = "placement";  // XOE_DETERMINISTIC: placement, placement-free
  bool encrypt = false;                     // kEncryptVariable
};

struct BackendChoice {
  bool shm = false;            // shared memory only
  bool flat = false;           // the net only
  bool in_rank_order = false;  // reductions combine the ranks in their order, also between hosts
  bool encrypt = false;        // the net encrypts
  // Nets in the order in which to try them; the first that loads is taken.
  std::vector<std::string> nets = {};
  std::string why = {};  // for messages
};

// by_mpi: an MPI's own launcher started the job. `invalid_argument` for unknown names, for shared memory between
// several hosts, for nccl below hierarchical: nccl moves GPU memory, so it is always the only net; for nccl where the
// order of the ranks must not depend on their placement, because it chooses one; and for encryption by mpi or nccl.
Result<BackendChoice> choose_backend(const BackendRequest& request, bool several_hosts, bool by_mpi);

}  // namespace xoe
