// Launch information from the environment variables of other launchers.
#pragma once

#include "core/base/env.h"
#include "core/bootstrap/launch_info.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

bool started_by_openmpi(const Env& env);
Result<LaunchInfo> read_openmpi(const Env& env);

// Hydra, the launcher of MPICH and of Intel MPI.
bool started_by_mpich(const Env& env);
Result<LaunchInfo> read_mpich(const Env& env);

// jsrun of IBM's Job Step Manager, in a job of LSF.
bool started_by_jsrun(const Env& env);
Result<LaunchInfo> read_jsrun(const Env& env);

// Inside a step (srun), not in the shell of sbatch or salloc, which has Slurm's variables too.
bool started_by_slurm(const Env& env);
Result<LaunchInfo> read_slurm(const Env& env);

bool started_by_torchrun(const Env& env);
// RANK, WORLD_SIZE and MASTER_ADDR by hand, as torch.distributed reads them.
bool looks_like_torch_distributed(const Env& env);
Result<LaunchInfo> read_torchrun(const Env& env);

}  // namespace xoe::bootstrap
