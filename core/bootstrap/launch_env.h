// The launcher's description of this process, from its environment.
#pragma once

#include "core/base/env.h"
#include "core/bootstrap/launch_info.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// Reads XOE_*, else Open MPI's, jsrun's, MPICH's (PMI), Slurm's or torchrun's variables, else gives a group of one.
// `invalid_argument` names a variable that is malformed, missing or contradicts another one.
Result<LaunchInfo> read_launch_info(const Env& env);

}  // namespace xoe::bootstrap
