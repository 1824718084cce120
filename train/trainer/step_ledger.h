// What a run tells its ledger: the records of each step of this rank.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data/ledger/ledger.h"
#include "train/trainer/batches.h"
#include "xoe/communicator.h"
#include "xoe/status.h"

namespace xoe::train {

// Empty until begin_world(); note() and done() do nothing then. It goes from world to world with its rank.
class StepLedger {
 public:
  // Collective. The ranks tell of the steps from `first_step` on. goes_on: some rank has told of an earlier world of
  // this job. The error of a file is `held`, and this rank's alone.
  Status begin_world(const std::string& folder, const data::OpenedData& data, bool goes_on, std::int64_t first_step,
                     Communicator& comm, Status& held);
  // Before the step's gradients are exchanged; a batch for each pass.
  Status note(std::int64_t step, std::span<const Batch> batches);
  // After the step has changed the model.
  Status done(std::int64_t step);

 private:
  Status write_world(const std::string& folder, const data::OpenedData& data, std::int64_t first_step, int size);

  std::optional<data::LedgerWriter> writer_;
  std::int64_t world_ = 0;
  int rank_ = 0;
};

}  // namespace xoe::train
