// ProcessSet, the half that runs what has been agreed: from the log to batches, to collectives, to completed handles.
#include <algorithm>
#include <new>

#include "base/error.h"
#include "engine/process_set.h"
#include "engine/set_observer.h"
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
  observer_.agreed(*this, submission, world_rank(last), std::chrono::nanoseconds(std::max<std::int64_t>(waited, 0)));
}

void ProcessSet::take_line(std::uint64_t position) {
  const LogLine line = table_->line(position);
  if (line.kind == LogKind::kAllJoined) {
    Item item{.line = line};
    item.op.kind = OpKind::kBarrier;
    item.op.internal = InternalKind::kAllJoined;
    taken_.push_back(std::move(item));
    return;
  }
  auto submission = take_submission(line);
  if (submission != nullptr) {
    submission->agreed = EngineClock::now();
    tell_agreed(line, *submission);
  }
  if (line.kind == LogKind::kRun) {
    const RankSubmission& theirs = table_->agreed(line);
    Item item{line, theirs.signature, theirs.op, {}, std::move(submission)};
    if (item.submission != nullptr)
      item.sizes = item.submission->sizes;
    else
      item.sizes.assign(theirs.sizes, theirs.sizes + theirs.op.tensors);
    taken_.push_back(std::move(item));
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

void ProcessSet::queue_batches(std::vector<Item> items, std::uint16_t knobs, std::uint64_t position) {
  const auto shared = std::make_shared<std::vector<Item>>(std::move(items));
  const auto name = [&](std::size_t item) { return table_->name((*shared)[item].line.entry); };
  const Knobs chosen = Knobs::decode(knobs).value_or(Knobs());
  const FusionLimits limits{chosen.fusion_threshold, chosen.pack_limit};
  in_flight_ = chosen.in_flight;
  for (Batch& batch : plan_batches(*shared, limits)) {
    auto running = std::make_unique<Running>();
    if (const std::size_t item = batch.fused ? batch.pieces[0].item : batch.item;
        (*shared)[item].line.kind != LogKind::kAllJoined)
      running->title = name(item);
    if (!batch.fused && batch.op.kind == OpKind::kAllreduce)
      running->codec_key = table_->unique_name((*shared)[batch.item].line.entry);
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
