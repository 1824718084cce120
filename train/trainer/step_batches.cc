#include "train/trainer/step_batches.h"

#include <utility>

#include "core/base/error.h"

namespace xoe::train {

Status StepBatches::restore(std::string position) {
  position_ = std::move(position);
  const Status found = setup_.data->restore(position_);
  if (!found && found.error().code() == Code::kInvalidArgument) {
    return failure(Code::kInvalidArgument, "{} (xoe train: --next-epoch)", found.error().message());
  }
  return found;
}

Result<std::int64_t> StepBatches::start_next_epoch(const std::string& position) {
  XOE_ASSIGN(const std::int64_t next, setup_.data->next_epoch(position));
  XOE_TRY(setup_.data->start_epoch(next));
  position_ = setup_.data->save();
  return next;
}

Status StepBatches::fetch() {
  note_position();
  read_.clear();
  for (int pass = 0; pass < options_.accumulate; ++pass) {
    XOE_ASSIGN(Batch batch, next_batch());
    read_.push_back(setup_.upload.start(batch));
  }
  const int shards = options_.logical_shards;
  batches_ =
      shards == 0 ? read_ : cut_into_shards(read_.front(), std::int64_t{shards} * options_.batch, shards, shards_);
  return {};
}

void StepBatches::note_position() {
  if (keeps_position_) position_ = setup_.data->save();
}

// Evaluation goes through the held-out images again and again.
Result<Batch> StepBatches::next_batch() {
  if (options_.step_kind != StepKind::kEvaluate || setup_.data->info().held_out == 0) return setup_.data->next();
  for (int passes = 0; passes < 2; ++passes) {
    XOE_ASSIGN(auto batch, setup_.data->next_held_out());
    if (batch && batch->count() > 0) return std::move(*batch);
    XOE_TRY(setup_.data->start_held_out());
  }
  return failure(Code::kInvalidArgument, "{}: rank {} has no held-out images of its own; use fewer ranks",
                 options_.data_dir, rank_);
}

}  // namespace xoe::train
