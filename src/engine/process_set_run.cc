// ProcessSet, the half that runs what has been agreed: from the log to batches, to collectives, to completed handles.
#include <algorithm>
#include <new>

#include "base/error.h"
#include "engine/process_set.h"
#include "engine/runtime.h"
#include "engine/tuning/knobs.h"

namespace xoe::engine {

// --- what has been agreed ---

// Every rank of a host builds the same text.
std::string ProcessSet::describe_mismatch(const LogLine& line) const {
  if (line.kind == LogKind::kJoinForbids) return "a rank has joined, and this operation needs data from it";
  std::vector<std::pair<std::string, std::vector<int>>> said;
  for (int r = 0; r < table_->ranks(); ++r) {
    const RankSubmission* theirs = table_->submission(line, r);
    if (theirs == nullptr) continue;
    const std::string text(theirs->text, theirs->text_length);
    const auto same = std::find_if(said.begin(), said.end(), [&](const auto& s) { return s.first == text; });
    if (same == said.end())
      said.push_back({text, {world_rank(r)}});
    else
      same->second.push_back(world_rank(r));
  }
  std::string message;
  for (const auto& [text, ranks] : said)
    message += fmt::format("{}rank{} {} submitted {}", message.empty() ? "" : "; ", ranks.size() == 1 ? "" : "s",
                           fmt::join(ranks, ", "), text);
  return message;
}

void ProcessSet::answer_mismatch(const LogLine& line, Submission& submission) const {
  std::string message;
  if (many_hosts_)
    message = table_->error(line);
  else
    message = fmt::format("'{}': {}{}", submission.name, line.kind == LogKind::kMismatch ? "ranks disagree: " : "",
                          describe_mismatch(line));
  if (message.empty()) message = fmt::format("'{}': ranks disagree", submission.name);
  submission.part_status = failure(Code::kInvalidArgument, std::move(message));
}

void ProcessSet::tell_agreed(const LogLine& line, Submission& submission) {
  int last = -1;
  std::int64_t latest = 0;
  for (int r = 0; r < table_->ranks(); ++r)
    if (const RankSubmission* theirs = table_->submission(line, r);
        theirs != nullptr && (last < 0 || theirs->arrived_ns > latest)) {
      last = r;
      latest = theirs->arrived_ns;
    }
  const std::int64_t waited = latest - submission.submitted.time_since_epoch().count();
  runtime_.watch().agreed(submission, world_rank(last), std::chrono::nanoseconds(std::max<std::int64_t>(waited, 0)));
}

void ProcessSet::take_line(std::uint64_t position) {
  const LogLine line = table_->line(position);
  if (line.kind == LogKind::kAllJoined) {
    OpDescriptor op;
    op.kind = OpKind::kBarrier;
    op.internal = InternalKind::kAllJoined;
    taken_.push_back(Submission::make_placeholder(op, 0, {}, line.entry));
    return;
  }
  auto submission = take_submission(line);
  if (submission != nullptr) {
    submission->agreed = EngineClock::now();
    tell_agreed(line, *submission);
  }
  if (line.kind == LogKind::kRun) {
    if (submission == nullptr) {
      const RankSubmission& theirs = table_->agreed(line);
      submission =
          Submission::make_placeholder(theirs.op, theirs.signature, {theirs.sizes, theirs.op.tensors}, line.entry);
    }
    taken_.push_back(std::move(submission));
    return;
  }
  if (submission == nullptr) return;
  if (line.kind == LogKind::kMismatch || line.kind == LogKind::kJoinForbids) answer_mismatch(line, *submission);
  complete(*submission, std::move(submission->part_status));
}

bool ProcessSet::take_seals() {
  bool moved = false;
  for (ReadinessTable::Seal seal = table_->seal(seal_number_, sealed_end_); seal.end != ReadinessTable::kUnsealed;
       seal = table_->seal(seal_number_, sealed_end_)) {
    const std::uint64_t begin = sealed_end_;
    for (std::uint64_t position = begin; position < seal.end; ++position) take_line(position);
    ++seal_number_;
    sealed_end_ = seal.end;
    if (!taken_.empty()) queue_batches(std::exchange(taken_, {}), seal.knobs, begin);
    moved = true;
  }
  return moved;
}

void ProcessSet::queue_batches(ReadyOps ready, std::uint16_t knobs, std::uint64_t position) {
  const Knobs chosen = Knobs::decode(knobs).value_or(Knobs());
  in_flight_ = chosen.in_flight;
  auto batches =
      plan_batches(std::make_shared<const ReadyOps>(std::move(ready)), {chosen.fusion_threshold, chosen.pack_limit});
  for (auto& batch : batches) {
    const Submission& first = batch->first();
    if (first.op.internal != InternalKind::kAllJoined) batch->title = table_->name(first.entry);
    if (!batch->fused && batch->op.kind == OpKind::kAllreduce) batch->codec_key = table_->unique_name(first.entry);
    if (batch->slices.size() > 1) batch->title += fmt::format(" + {} more", batch->slices.size() - 1);
    batch->each_submission([](Submission& submission) { ++submission.parts_left; });
    batch->position = position;
    queued_.push_back(std::move(batch));
  }
}

// --- running ---

bool ProcessSet::start_batches() {
  bool moved = false;
  while (!queued_.empty() && static_cast<int>(running_.size()) < in_flight_ &&
         (running_.empty() || running_.back()->may_follow)) {
    Submission& first = queued_.front()->first();
    const bool internal = first.op.internal != InternalKind::kNone;
    if (internal && !running_.empty()) break;
    auto batch = std::move(queued_.front());
    queued_.pop_front();
    batch->started = batch->packed = batch->reduced = EngineClock::now();
    moved = true;
    if (first.op.internal == InternalKind::kAllJoined) {
      finish_join(first.entry);
      continue;
    }
    if (internal) {
      const Status status = runtime_.run_internal(first);
      if (failed()) return true;  // which has answered
      finish_part(first, status);
      continue;
    }
    batch->task = run_batch(context_, *batch);
    running_.push_back(std::move(batch));
    running_.back()->task.advance();
  }
  return moved;
}

bool ProcessSet::run_batches() {
  bool moved = false;
  while (!running_.empty()) {
    Batch& batch = *running_.front();
    const bool followed = batch.may_follow;
    // Collectives complete in their order: behind one that has not, nothing has.
    if (!batch.task.advance()) return moved || batch.may_follow != followed;
    moved = true;
    batch.done = EngineClock::now();
    const Status status = batch.task.result();
    runtime_.watch().batch_done(batch, status);
    if (!status) {
      const Status group = comm_.progress();
      if (!group)
        fail(group.error());
      else
        abort(Error(status.error().code(), fmt::format("rank {}: {}: {}", ranks_[static_cast<std::size_t>(rank_)],
                                                       batch.title, status.error().message())));
      return true;
    }
    const auto owned = std::move(running_.front());
    running_.pop_front();
    finish(*owned);
  }
  return moved;
}

void ProcessSet::finish(const Batch& batch) {
  batch.each_submission([&](Submission& submission) { finish_part(submission, {}); });
}

void ProcessSet::finish_part(Submission& submission, const Status& status) {
  if (submission.placeholder) return;
  if (!status && submission.part_status) submission.part_status = status;
  if (--submission.parts_left != 0) return;
  if (submission.part_status && submission.allocator_refused())
    submission.part_status =
        failure(Code::kResourceExhausted, "{}: the allocator gave no memory for the result", submission.title());
  complete(submission, std::move(submission.part_status));
}

void ProcessSet::note_completed() {
  std::uint64_t position = sealed_end_;
  if (!queued_.empty()) position = queued_.front()->position;
  if (!running_.empty()) position = std::min(position, running_.front()->position);
  if (position == noted_completed_) return;
  noted_completed_ = position;
  table_->completed(position);
}

void ProcessSet::set_knobs(const Knobs& knobs) noexcept {
  if (rank_ == 0) table_->knobs().store(knobs.encode(), std::memory_order_relaxed);
}

bool ProcessSet::seal_more() {
  const auto knobs = static_cast<std::uint16_t>(table_->knobs().load(std::memory_order_relaxed));
  const bool idle = queued_.empty() && static_cast<int>(running_.size()) < in_flight_;
  if (!many_hosts_) {
    const bool sealed = idle && table_->try_seal(seal_number_, sealed_end_, knobs);
    if (sealed) wake();
    return sealed;
  }
  if (leader_ == nullptr) return false;
  const auto moved = leader_->advance(idle, knobs);
  if (!moved) {
    abort(moved.error());
    return false;
  }
  if (*moved) wake();
  return *moved;
}

bool ProcessSet::progress() {
  if (failed()) return false;
  try {
    return progress_until_blocked();
  } catch (const std::bad_alloc&) {
    abort(Error(Code::kResourceExhausted,
                fmt::format("rank {} has no memory left", ranks_[static_cast<std::size_t>(rank_)])));
    return true;
  }
}

bool ProcessSet::progress_until_blocked() {
  bool moved = false;
  while (true) {
    bool again = take_seals();
    again |= run_batches();
    again |= start_batches();
    if (failed()) return true;
    again |= seal_more();
    if (failed()) return true;
    if (!again && table_->seal(seal_number_, sealed_end_).end == ReadinessTable::kUnsealed) break;
    moved = true;
  }
  note_completed();
  if (std::exchange(departed_, false)) look_for_departed(/*drained=*/true);
  return moved;
}

}  // namespace xoe::engine
