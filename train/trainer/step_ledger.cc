#include "train/trainer/step_ledger.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/random_token.h"
#include "core/bootstrap/launch_env.h"

namespace xoe::train {
namespace {

// A name for the training that this job begins, which all its processes find, those that are started again too.
std::int64_t run_of_job() {
  const auto info = bootstrap::read_launch_info(Env::process());
  const bool named = info && info->launcher != "none" && info->job != "alone";
  const std::string name = named ? info->job : random_token().value_or("");
  return static_cast<std::int64_t>(hash_text(name) >> 2) + 1;
}

Status refuse(const data::LedgerFolder& there, LedgerStart start, const std::string& folder) {
  if (start == LedgerStart::kResumed)
    return failure(
        Code::kInvalidArgument,
        "--ledger {}: {} is of another training than the checkpoint, or than the ledgers of other hosts; name "
        "the folder that this training wrote",
        folder, there.file);
  return failure(Code::kInvalidArgument,
                 "--ledger {} has the ledger of another training, {}; give this one a folder of its own, or go on with "
                 "that one: --resume",
                 folder, there.file);
}

}  // namespace

Status StepLedger::begin_world(const std::string& folder, const data::OpenedData& data, LedgerStart start,
                               std::int64_t first_step, Communicator& comm, Status& held) {
  data::LedgerFolder there;
  if (world_ == 0 && start != LedgerStart::kGoesOn) {
    auto found = data::look_at_ledger(folder);
    if (!found) held = failure(found.error());
    if (found) there = std::move(*found);
    // Worlds of all jobs that write to this folder have different numbers.
    world_ = there.last_world;
    run_ = static_cast<std::int64_t>(there.run);
  }
  // If a rank is lost during the next line, some ranks may have used this number for a world already.
  tried_ = std::max(tried_, world_) + 1;
  std::array<std::int64_t, 3> joint = {tried_, world_ > 0 ? run_ + 1 : 0, run_of_job()};
  XOE_TRY(comm.allreduce(Tensor(joint.data(), joint.size()), ReduceOp::kMax, {.name = "number of the ledger's world"}));
  world_ = joint[0];
  run_ = joint[1] > 0 && start != LedgerStart::kNew ? joint[1] - 1 : joint[2];
  if (start == LedgerStart::kResumed && resumed_run_ != 0) run_ = resumed_run_;
  rank_ = comm.rank();
  if (held && !there.empty() && static_cast<std::int64_t>(there.run) != run_) held = refuse(there, start, folder);
  if (held) held = write_world(folder, data, first_step, comm.size());
  return {};
}

Status StepLedger::write_world(const std::string& folder, const data::OpenedData& data, std::int64_t first_step,
                               int size) {
  if (!writer_) {
    XOE_ASSIGN(auto writer, data::LedgerWriter::open(folder, {.records = data.records,
                                                              .fingerprint = data.order,
                                                              .run = static_cast<std::uint64_t>(run_)}));
    writer_.emplace(std::move(writer));
  }
  return writer_->world({.number = world_, .rank = rank_, .size = size, .first_step = first_step});
}

Status StepLedger::note(std::int64_t step, std::span<const Batch> batches) {
  if (!writer_) return {};
  for (const Batch& batch : batches)
    XOE_TRY(writer_->step({.world = world_,
                           .step = step,
                           .rank = rank_,
                           .epoch = batch.epoch,
                           .left = batch.left,
                           .records = batch.records}));
  return {};
}

Status StepLedger::done(std::int64_t step) {
  return writer_ ? writer_->done({.world = world_, .step = step}) : Status();
}

}  // namespace xoe::train
