// Makes the agreement that suits the hosts of a process set.
#pragma once

#include <memory>
#include <vector>

#include "core/engine/negotiate/agreement.h"
#include "xoe/communicator.h"
#include "xoe/status.h"

namespace xoe::engine {

// Collective over `comm`, with the same capacity on all ranks. world_ranks: by rank of the set.
Result<std::unique_ptr<Agreement>> make_agreement(Communicator& comm, std::vector<int> world_ranks, int capacity);

}  // namespace xoe::engine
