// The MPI implementation that this process belongs to.
#pragma once

#include <string>

#include "core/base/env.h"
#include "xoe/status.h"

namespace xoe::net {

// The name for open_plugin(), "mpi-openmpi" or "mpi-mpich": by the launcher's environment variables, or as
// XOE_MPI=openmpi|mpich says. `unsupported` when no MPI launcher started this process, which would make it a group of
// one.
Result<std::string> choose_mpi(const Env& env);

}  // namespace xoe::net
