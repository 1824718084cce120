// The MPI of this process, which its launcher chose.
#pragma once

#include <memory>

#include "backend/net/net.h"

namespace xoe::mpi {

Result<std::unique_ptr<net::Provider>> open_provider(const net::NetOptions& options);

}  // namespace xoe::mpi
