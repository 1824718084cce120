// One fate for all ranks.
#pragma once

#include <string>

#include "xoe/communicator.h"

namespace xoe::train {

// Collective. Ok when `mine` is ok on all ranks; else the error of the lowest rank that has one, on every rank; of
// another rank than 0 it begins with "rank 3: ".
Status agree(Communicator& comm, const Status& mine);

// Collective. The bytes of `root` arrive on all ranks; other ranks' `bytes` are replaced.
Status broadcast_bytes(Communicator& comm, std::string& bytes, int root = 0);

}  // namespace xoe::train
