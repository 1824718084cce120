// The state of a training as it goes from rank to rank, in memory, after ranks have come, left or been lost.
#pragma once

#include <string>
#include <vector>

#include "train/trainer/rank_state.h"
#include "xoe/communicator.h"

namespace xoe::train {

// The ranks whose model and optimizer are as the latest step left them.
struct Holders {
  std::vector<int> ranks = {};  // in order; empty: the training has not begun
  bool mine = false;            // this rank is one
  bool all = false;             // every rank is one
  Progress progress = {};       // of the first one
};

// Collective. expects: this process has had a state of the training in an earlier world. `data_loss` on all ranks where
// one expects a state, and none has it.
Result<Holders> find_holders(const RankState& state, bool expects, Communicator& comm);

// Collective. Ranks that are no holders get parameters, optimizer and averaged weights of the holders, each of which
// gives a part, and the buffers of the first. What a rank has of an earlier step stays until parameters and optimizer
// have arrived.
// REQUIRES: there are holders, and model and optimizer are made.
Status receive_state(RankState& state, const Holders& holders, Communicator& comm);

}  // namespace xoe::train
