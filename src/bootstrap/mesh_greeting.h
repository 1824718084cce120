// How the members of a mesh find each other's sockets and check who is there.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/fd.h"
#include "bootstrap/host_mesh.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

// A socket for each member but this one, which do not block. Members call those before them and await those after.
Result<std::vector<Fd>> greet_members(int self, int size, const HostMesh::Exchange& exchange,
                                      const MeshOptions& options, std::chrono::steady_clock::time_point deadline);

}  // namespace xoe::bootstrap
