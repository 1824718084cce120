// Which backend a job runs on: a pure function of where its ranks are and of what the user wants.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe {

struct BackendWish {
  std::string backend = "auto";  // XOE_BACKEND: auto, shm, hierarchical, gloo, mpi, nccl
  std::string net = "auto";      // XOE_NET: auto, gloo, mpi, nccl: what goes between hosts
};

struct BackendChoice {
  bool shm = false;   // shared memory alone
  bool flat = false;  // the net alone
  // Nets in the order in which to try them; the first that loads is taken.
  std::vector<std::string> nets = {};
  std::string why = {};  // for people
};

// by_mpi: an MPI's own launcher started the job. `invalid_argument` for names that are none, for shared memory between
// several hosts, and for nccl below hierarchical: it moves GPU memory, so it is always the net alone.
Result<BackendChoice> choose_backend(const BackendWish& wish, bool several_hosts, bool by_mpi);

}  // namespace xoe
