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

// How a world comes to the ledger of its training.
enum class LedgerStart : std::uint8_t {
  kNew,      // the training begins: the folder holds none yet, or that of this job, which is started again
  kResumed,  // from a checkpoint: it goes on with the ledger that is there
  kGoesOn,   // some rank has told of an earlier world of this job
};

// Empty until begin_world(); note() and done() do nothing then. It goes from world to world with its rank.
class StepLedger {
 public:
  // Collective. The ranks tell of the steps from `first_step` on. The error of a file is `held`, and this rank's alone;
  // `invalid_argument`: the folder has the ledger of another training.
  Status begin_world(const std::string& folder, const data::OpenedData& data, LedgerStart start,
                     std::int64_t first_step, Communicator& comm, Status& held);
  // Before begin_world(): the checkpoint is of this training; 0: it does not say.
  void go_on_with(std::int64_t run) noexcept { resumed_run_ = run; }
  // A number that stands for the training; 0: it has no ledger.
  std::int64_t run() const noexcept { return run_; }
  // Before the step's gradients are exchanged; a batch for each pass.
  Status note(std::int64_t step, std::span<const Batch> batches);
  // After the step has changed the model.
  Status done(std::int64_t step);

 private:
  Status write_world(const std::string& folder, const data::OpenedData& data, std::int64_t first_step, int size);

  std::optional<data::LedgerWriter> writer_;
  std::int64_t world_ = 0;
  std::int64_t tried_ = 0;        // the last number that this rank had for a world, which may have failed
  std::int64_t run_ = 0;          // the training
  std::int64_t resumed_run_ = 0;  // of the checkpoint that it goes on from
  int rank_ = 0;
};

}  // namespace xoe::train
