// A group of ranks that its members name, in place of all ranks of the job.
#pragma once

#include <span>

#include "xoe/communicator.h"

namespace xoe {

// The group that this rank names, in that order; empty: all ranks. Collective over `world`: every rank is in the group
// that it names, and all its members name the same. `invalid_argument`, the same on all ranks, describes the first
// mismatch.
Result<Communicator> subgroup(Communicator world, std::span<const int> ranks);

}  // namespace xoe
