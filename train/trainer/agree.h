// Agreement of all ranks on one error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "xoe/communicator.h"

namespace xoe::train {

// Collective. Ok when `mine` is ok on all ranks; otherwise every rank returns the error of the lowest rank that has
// one. The error of a rank other than 0 begins with "rank 3: ".
Status agree(Communicator& comm, const Status& mine);

// Collective. Replaces `bytes` by those of `root` on all ranks.
Status broadcast_bytes(Communicator& comm, std::string& bytes, int root = 0);

// Collective. The texts of all ranks, by rank.
Result<std::vector<std::string>> gather_texts(Communicator& comm, std::string_view text);

}  // namespace xoe::train
