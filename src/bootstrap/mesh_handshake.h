// Connects the members of a mesh, and authenticates each connection.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/fd.h"
#include "bootstrap/host_mesh.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// Non-blocking sockets to all members but this one, by member. Each member connects to those before it and accepts
// those after it.
Result<std::vector<Fd>> connect_members(int self, int size, const HostMesh::Exchange& exchange,
                                        const MeshOptions& options, std::chrono::steady_clock::time_point deadline);

}  // namespace xoe::bootstrap
