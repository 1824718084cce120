// Steps of operations on GPU memory.
#pragma once

#include "engine/execute/operations.h"

namespace xoe::engine {

// `then` after all ranks of the set have joined its lane, which the first one does.
Task run_with_gpu(Workshop& shop, Running& running, Task then);

// Starts a collective on tensors of an item. Memory that this rank does not have is null.
Result<Handle> start_on_gpu(Workshop& shop, const Running& running, const Item& item, Collective collective);

// The tensors of a batch, each where it lies.
Task run_pieces_on_gpu(Workshop& shop, Running& running);

}  // namespace xoe::engine
