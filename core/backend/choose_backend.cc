#include "core/backend/choose_backend.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"

namespace xoe {
namespace {

constexpr std::array<std::string_view, 6> kBackends{"auto", "shm", "hierarchical", "gloo", "mpi", "nccl"};
constexpr std::array<std::string_view, 4> kNets{"auto", "gloo", "mpi", "nccl"};
constexpr std::array<std::string_view, 2> kDeterministic{"placement", kPlacementFree};

template <class Names>
Status check(std::string_view variable, const std::string& value, const Names& names) {
  if (std::ranges::find(names, value) != names.end()) return {};
  return failure(Code::kInvalidArgument, "environment variable {}={}: expected {}", variable, value,
                 fmt::join(names, ", "));
}

}  // namespace

Result<BackendChoice> choose_backend(const BackendRequest& request, bool several_hosts, bool by_mpi) {
  XOE_TRY(check("XOE_BACKEND", request.backend, kBackends));
  XOE_TRY(check("XOE_NET", request.net, kNets));
  XOE_TRY(check("XOE_DETERMINISTIC", request.deterministic, kDeterministic));
  BackendChoice choice{.in_rank_order = request.deterministic == kPlacementFree, .encrypt = request.encrypt};
  if (choice.in_rank_order && (request.backend == "nccl" || request.net == "nccl"))
    return failure(Code::kInvalidArgument,
                   "XOE_DETERMINISTIC=placement-free: nccl combines ranks in an order of its own; choose gloo or mpi "
                   "for XOE_BACKEND or XOE_NET");
  for (const std::string& name : {request.backend, request.net})
    if (request.encrypt && (name == "mpi" || name == "nccl"))
      return failure(Code::kInvalidArgument,
                     "XOE_ENCRYPT=1: {} does not encrypt what it sends; choose gloo for XOE_BACKEND or XOE_NET", name);
  if (request.backend == "hierarchical" && request.net == "nccl")
    return failure(
        Code::kInvalidArgument,
        "XOE_BACKEND=hierarchical with XOE_NET=nccl: nccl moves GPU memory, and hierarchical reduces in host "
        "memory first; set XOE_BACKEND=nccl alone, or choose gloo or mpi for XOE_NET");
  if (request.backend == "gloo" || request.backend == "mpi" || request.backend == "nccl") {
    choice.flat = true;
    choice.nets = {request.backend};
    choice.why = "chosen with XOE_BACKEND";
    return choice;
  }
  if (!several_hosts) {
    choice.shm = true;
    choice.why = "all ranks are on one host";
    return choice;
  }
  if (request.backend == "shm")
    return failure(Code::kInvalidArgument,
                   "XOE_BACKEND=shm: the ranks are on several hosts, which share no memory; unset it, or choose "
                   "hierarchical, gloo, mpi or nccl");
  if (request.net != "auto") {
    choice.flat = request.net == "nccl";
    choice.nets = {request.net};
    choice.why = "several hosts; chosen with XOE_NET";
  } else if (by_mpi && !request.encrypt) {
    choice.nets = {"mpi", "gloo"};
    choice.why = "several hosts, and an MPI started the job";
  } else {
    choice.nets = {"gloo"};
    choice.why = "several hosts";
  }
  return choice;
}

}  // namespace xoe
