// Which MPI this process belongs to.
#pragma once

#include <string>

#include "base/env.h"
#include "xoe/status.h"

namespace xoe::net {

// The plug-in for open_plugin(): "mpi-openmpi" or "mpi-mpich", by what the launcher left in the environment, or as
// XOE_MPI=openmpi|mpich says. `unsupported` when no MPI launcher started this process: alone it would be a group of
// one.
Result<std::string> choose_mpi(const Env& env);

}  // namespace xoe::net
