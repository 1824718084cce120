#include "core/backend/net/choose_mpi.h"

#include "core/base/error.h"

namespace xoe::net {

Result<std::string> choose_mpi(const Env& env) {
  if (const auto wanted = env.text("XOE_MPI")) {
    if (*wanted == "openmpi" || *wanted == "mpich") return "mpi-" + *wanted;
    return failure(Code::kInvalidArgument, "XOE_MPI={}: it is openmpi or mpich", *wanted);
  }
  if (env.has("OMPI_COMM_WORLD_SIZE")) return "mpi-openmpi";
  // Hydra's mpirun, and srun --mpi=pmi2, speak MPICH's protocol; srun --mpi=pmix that of Open MPI.
  if (env.has("PMI_RANK") || env.has("PMI_ID") || env.has("PMI_FD")) return "mpi-mpich";
  if (env.has("PMIX_RANK")) return "mpi-openmpi";
  return failure(Code::kUnsupported, "{}",
                 "no MPI started this process: none of OMPI_COMM_WORLD_SIZE, PMI_RANK, PMI_FD and PMIX_RANK is set; "
                 "start it with mpirun or srun --mpi=pmi2|pmix, or choose another backend");
}

}  // namespace xoe::net
