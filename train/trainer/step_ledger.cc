#include "train/trainer/step_ledger.h"

#include <utility>

#include "core/base/error.h"

namespace xoe::train {

Status StepLedger::begin_world(const std::string& folder, const data::OpenedData& data, bool goes_on,
                               std::int64_t first_step, Communicator& comm, Status& held) {
  // Worlds of all jobs that write to this folder have different numbers.
  if (world_ == 0 && !goes_on) {
    const auto last = data::last_ledger_world(folder);
    if (last) world_ = *last;
    if (!last) held = failure(last.error());
  }
  XOE_TRY(comm.allreduce(Tensor(&world_, 1), ReduceOp::kMax, {.name = "number of the ledger's world"}));
  ++world_;
  rank_ = comm.rank();
  if (held) held = write_world(folder, data, first_step, comm.size());
  return {};
}

Status StepLedger::write_world(const std::string& folder, const data::OpenedData& data, std::int64_t first_step,
                               int size) {
  if (!writer_) {
    XOE_ASSIGN(auto writer, data::LedgerWriter::open(folder, {.records = data.records, .fingerprint = data.order}));
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
