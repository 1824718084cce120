// The records of a simulated training: which ones a rank takes in each step, and what its ledger says of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "xoe/communicator.h"
#include "xoe/data/stages.h"
#include "xoe/status.h"

namespace xoe::launch::sim_tests {

// A rank's part of each epoch, as the data pipeline shares it out among the ranks of a world.
class Records {
 public:
  // Where the next step begins: the same text on all ranks, a part of the state of the training.
  std::string& position() { return position_; }
  // Collective. From `first_step` on the ranks of `comm` share what is left of the epoch.
  Status begin_world(Communicator& comm, std::int64_t first_step);
  // Takes the records of a step, and writes them down.
  Status take(std::int64_t step);
  // The step is done on this rank.
  void done(std::int64_t step);
  // The number of the world in the ledger.
  std::int64_t world() const { return world_; }

 private:
  std::string position_;
  std::shared_ptr<data::Iterator<data::Batch<std::int64_t>>> batches_;
  std::int64_t world_ = 0, tried_ = 0;
  int rank_ = 0;
};

// Looks into the ledgers of all ranks, and says what is wrong there; empty: each epoch that ended had each record once.
std::string problem_of_ledgers();

}  // namespace xoe::launch::sim_tests
