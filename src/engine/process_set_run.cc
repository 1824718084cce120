// ProcessSet, the half that runs what has been agreed: from the log to batches, to collectives, to completed handles.
#include <algorithm>
#include <new>

#include "base/error.h"
#include "engine/process_set.h"
#include "engine/set_observer.h"
#include "engine/tuning/knobs.h"

namespace xoe::engine {

// --- what has been agreed ---

void ProcessSet::take_line(std::uint64_t position) {
  const AgreedLine agreed = agreement_->line(position);
  const LogLine& line = agreed.line;
  if (line.kind == LogKind::kAllJoined) {
    Item item{.line = line};
    item.op.kind = OpKind::kBarrier;
    item.op.internal = InternalKind::kAllJoined;
    taken_.push_back(std::move(item));
    return;
  }
  auto submission = take_submission(agreed);
  if (submission != nullptr) {
    submission->agreed = EngineClock::now();
    const std::int64_t waited = agreed.last_ns - submission->submitted.time_since_epoch().count();
    observer_.agreed(*this, *submission, agreed.last_rank, std::chrono::nanoseconds(std::max<std::int64_t>(waited, 0)));
  }
  if (line.kind == LogKind::kRun) {
    const RankSubmission& theirs = *agreed.agreed;
    Item item{line, theirs.signature, theirs.op, {}, std::move(submission)};
    if (item.submission != nullptr)
      item.sizes = item.submission->sizes;
    else
      item.sizes.assign(theirs.sizes, theirs.sizes + theirs.op.tensors);
    taken_.push_back(std::move(item));
    return;
  }
  if (submission == nullptr) return;
  if (line.kind == LogKind::kMismatch || line.kind == LogKind::kJoinForbids)
    submission->part_status = failure(Code::kInvalidArgument, agreement_->error(line, submission->name));
  complete(*submission, std::move(submission->part_status));
}

bool ProcessSet::take_seals() {
  bool moved = false;
  for (auto seal = agreement_->next_sealed(); seal; seal = agreement_->next_sealed()) {
    for (std::uint64_t position = seal->begin; position < seal->end; ++position) take_line(position);
    if (!taken_.empty()) queue_batches(std::exchange(taken_, {}), seal->knobs, seal->begin);
    moved = true;
  }
  return moved;
}

void ProcessSet::queue_batches(std::vector<Item> items, std::uint16_t knobs, std::uint64_t position) {
  const auto shared = std::make_shared<std::vector<Item>>(std::move(items));
  const auto name = [&](std::size_t item) { return agreement_->name((*shared)[item].line.entry); };
  const Knobs chosen = Knobs::decode(knobs).value_or(Knobs());
  const FusionLimits limits{chosen.fusion_threshold, chosen.pack_limit};
  in_flight_ = chosen.in_flight;
  for (Batch& batch : plan_batches(*shared, limits)) {
    auto running = std::make_unique<Running>();
    if (const std::size_t item = batch.fused ? batch.pieces[0].item : batch.item;
        (*shared)[item].line.kind != LogKind::kAllJoined)
      running->title = name(item);
    if (!batch.fused && batch.op.kind == OpKind::kAllreduce)
      running->codec_key = agreement_->unique_name((*shared)[batch.item].line.entry);
    if (batch.pieces.size() > 1) running->title += fmt::format(" + {} more", batch.pieces.size() - 1);
    const auto count_part = [&](std::size_t item) {
      if ((*shared)[item].submission != nullptr) ++(*shared)[item].submission->parts_left;
    };
    for (const Piece& piece : batch.pieces) count_part(piece.item);
    if (!batch.fused) count_part(batch.item);
    running->batch = std::move(batch);
    running->items = shared;
    running->position = position;
    queued_.push_back(std::move(running));
  }
}

// --- running ---

bool ProcessSet::start_batches() {
  bool moved = false;
  while (!queued_.empty() && static_cast<int>(running_.size()) < in_flight_ &&
         (running_.empty() || running_.back()->may_follow)) {
    const Item& item = (*queued_.front()->items)[queued_.front()->batch.item];
    const bool internal = !queued_.front()->batch.fused && item.op.internal != InternalKind::kNone;
    if (internal && !running_.empty()) break;
    auto running = std::move(queued_.front());
    queued_.pop_front();
    running->started = running->packed = running->reduced = EngineClock::now();
    moved = true;
    if (internal && item.line.kind == LogKind::kAllJoined) {
      finish_join(item.line);
      continue;
    }
    if (internal) {
      const Status status = observer_.run_internal(*item.submission);
      if (failed()) return true;  // which has answered
      finish_part(item.submission, status);
      continue;
    }
    running->task = run_batch(shop_, *running);
    running_.push_back(std::move(running));
    running_.back()->task.advance();
  }
  return moved;
}

bool ProcessSet::run_batches() {
  bool moved = false;
  while (!running_.empty()) {
    Running& running = *running_.front();
    const bool followed = running.may_follow;
    // Collectives complete in their order: behind one that has not, nothing has.
    if (!running.task.advance()) return moved || running.may_follow != followed;
    moved = true;
    running.done = EngineClock::now();
    const Status status = running.task.result();
    observer_.batch_done(*this, running, status);
    if (!status) {
      const Status group = comm_.progress();
      if (!group)
        fail(group.error());
      else
        abort(Error(status.error().code(), fmt::format("rank {}: {}: {}", ranks_[static_cast<std::size_t>(rank_)],
                                                       running.title, status.error().message())));
      return true;
    }
    const auto owned = std::move(running_.front());
    running_.pop_front();
    finish(*owned);
  }
  return moved;
}

void ProcessSet::finish(Running& running) {
  if (!running.batch.fused) return finish_part((*running.items)[running.batch.item].submission, {});
  for (const Piece& piece : running.batch.pieces) finish_part((*running.items)[piece.item].submission, {});
}

void ProcessSet::finish_part(const std::shared_ptr<Submission>& submission, const Status& status) {
  if (submission == nullptr) return;
  if (!status && submission->part_status) submission->part_status = status;
  if (--submission->parts_left != 0) return;
  if (submission->part_status && submission->allocator_refused())
    submission->part_status =
        failure(Code::kResourceExhausted, "{}: the allocator gave no memory for the result", submission->title());
  complete(*submission, std::move(submission->part_status));
}

void ProcessSet::note_completed() {
  std::uint64_t position = agreement_->sealed_end();
  if (!queued_.empty()) position = queued_.front()->position;
  if (!running_.empty()) position = std::min(position, running_.front()->position);
  if (position == noted_completed_) return;
  noted_completed_ = position;
  agreement_->completed(position);
}

void ProcessSet::set_knobs(const Knobs& knobs) noexcept { agreement_->set_knobs(knobs.encode()); }

bool ProcessSet::decide_more() {
  const auto moved = agreement_->progress(queued_.empty() && static_cast<int>(running_.size()) < in_flight_);
  if (!moved) {
    abort(moved.error());
    return false;
  }
  if (*moved) wake();
  return *moved;
}

bool ProcessSet::advance() {
  if (failed()) return false;
  try {
    return advance_as_far_as_possible();
  } catch (const std::bad_alloc&) {
    abort(Error(Code::kResourceExhausted,
                fmt::format("rank {} has no memory left", ranks_[static_cast<std::size_t>(rank_)])));
    return true;
  }
}

bool ProcessSet::advance_as_far_as_possible() {
  bool moved = false;
  while (true) {
    bool again = take_seals();
    again |= run_batches();
    again |= start_batches();
    if (failed()) return true;
    again |= decide_more();
    if (failed()) return true;
    if (!again && !agreement_->has_sealed()) break;
    moved = true;
  }
  note_completed();
  if (std::exchange(departed_, false)) check_departed();
  return moved;
}

}  // namespace xoe::engine
