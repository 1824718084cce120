#include "core/engine/process_sets/process_set.h"

#include <algorithm>
#include <array>
#include <new>
#include <thread>

#include "core/base/error.h"
#include "core/engine/negotiate/make_agreement.h"
#include "core/engine/tuning/knobs.h"

namespace xoe::engine {
namespace {

constexpr std::uint32_t kUnnamed = 1024;  // names for unnamed operations of a kind, used in turns
constexpr std::chrono::seconds kTableTimeout(10);

std::shared_ptr<Submission> placeholder_of(const OpDescriptor& op, std::uint64_t signature,
                                           std::span<const TensorSize> sizes, int entry) {
  auto submission = std::make_shared<Submission>(SubmittedOperation::make_placeholder(op, signature, sizes));
  submission->progress.entry = entry;
  return submission;
}

}  // namespace

ProcessSet::ProcessSet(ProcessSetId id, Communicator comm, std::vector<int> ranks, const EngineOptions& options,
                       std::shared_ptr<GpuPlugin> gpu, const ProcessSetServices& services)
    : id_(id),
      ranks_(std::move(ranks)),
      gpu_comm_(std::make_unique<GpuCommunicator>(
          std::move(gpu), net::Members{.ranks = ranks_, .self = comm.rank()}, [this] { wake(); }, options.warn)),
      comm_(std::move(comm)),
      host_group_(comm_.backend().host_group()),
      services_(services),
      runner_(comm_, *gpu_comm_, services_.telemetry.profiler()) {}

ProcessSet::~ProcessSet() {
  gpu_comm_->stop(/*failed=*/false);
  if (pool_ != nullptr) pool_->close();
}

Result<std::unique_ptr<ProcessSet>> ProcessSet::create(ProcessSetId id, Communicator comm, std::vector<int> ranks,
                                                       const EngineOptions& options, std::shared_ptr<GpuPlugin> gpu,
                                                       const ProcessSetServices& services) {
  std::unique_ptr<ProcessSet> set(
      new ProcessSet(id, std::move(comm), std::move(ranks), options, std::move(gpu), services));
  // All ranks must lay out the table alike, and forget codecs at the same time.
  // Tables grow; that of a set takes shared memory of one rank for each of its ranks and entries.
  constexpr std::int64_t kEntriesOfASet = 1024;
  const std::int64_t capacity =
      id == kWorldSet ? options.cache_capacity : std::min<std::int64_t>(options.cache_capacity, kEntriesOfASet);
  std::array<std::int64_t, 2> limits{capacity, static_cast<std::int64_t>(options.codec_state)};
  XOE_TRY(set->comm_.broadcast(Tensor(limits.data(), limits.size()), 0, {.name = "limits"}));
  XOE_ASSIGN(set->agreement_, make_agreement(set->comm_, set->ranks_, static_cast<int>(limits[0])));
  set->runner_.limit_codec_state(static_cast<std::size_t>(limits[1]));
  set->in_flight_.resize(set->agreement_->entries());
  set->pool_ = std::make_shared<SubmissionPool>(set->agreement_->entries(), set->rank(), set->size());
  set->set_knobs(Knobs::nearest(options.fusion_threshold, options.pack_limit, options.in_flight));
  return set;
}

// --- submitting ---

Status ProcessSet::refuse() const {
  const std::lock_guard lock(mutex_);
  return failure(*cause_);
}

void ProcessSet::count_pending(int change) noexcept {
  pending_.fetch_add(change, std::memory_order_seq_cst);
  services_.pending.fetch_add(change, std::memory_order_seq_cst);
}

Status ProcessSet::submit(const std::shared_ptr<Submission>& submission) {
  const bool open = join_gate_.enter();
  Status status;
  if (failed())
    status = refuse();
  else if (!open)
    status = failure(Code::kInvalidArgument, "{}: this rank has joined, and submits nothing until all ranks have",
                     submission->operation().title());
  else
    status = submission->operation().name.empty() ? submit_unnamed(submission) : arrive(submission);
  join_gate_.leave();
  return status;
}

// The ranks' n-th ones meet. All ranks submit them in one order, so one that waits until the one with its name has
// completed holds up nothing that could complete before.
Status ProcessSet::submit_unnamed(const std::shared_ptr<Submission>& submission) {
  const std::uint32_t n = turns_.next_unnamed(submission->operation().op.kind);
  submission->set_name(fmt::format("unnamed.{}.{}", op_kind_name(submission->operation().op.kind), n % kUnnamed));
  submission->set_queue_same_name();
  Status status = arrive(submission);
  // A refusal must not shift this rank's operations against the others'.
  if (!status) turns_.take_back(submission->operation().op.kind, n);
  return status;
}

Status ProcessSet::arrive(const std::shared_ptr<Submission>& submission) {
  if (!submission->operation().queue_same_name || turns_.empty()) [[likely]] {
    const Result<bool> entered = enter(submission);
    if (entered && *entered) [[likely]]
      return {};
    if (!entered) {
      if (submission->operation().queue_same_name && !turns_.empty()) take_turn(submission->operation().name);
      return failure(entered.error());
    }
    if (!submission->operation().queue_same_name)
      return failure(Code::kInvalidArgument,
                     "{}: this name is in flight already: wait for the handle of its first submission",
                     submission->operation().title());
  }
  count_pending(1);
  if (!turns_.add(submission)) {
    count_pending(-1);
    return refuse();
  }
  take_turn(submission->operation().name);
  return {};
}

void ProcessSet::take_turn(const std::string& name) {
  auto next = NameTurns::Next::kTryAgain;
  while (next == NameTurns::Next::kTryAgain) {
    const auto submission = turns_.begin(name);
    if (submission == nullptr) return;
    const Result<bool> entered = enter(submission);
    next = entered && !*entered ? turns_.put_back(submission) : turns_.end(name);
    if (!entered || next == NameTurns::Next::kAnswerIt) {
      std::unique_lock lock(services_.progress_lock, std::defer_lock);
      if (!services_.progress_lock.held_by_this_thread()) lock.lock();
      if (!entered) give_up_turn(*submission, entered.error());
      complete(*submission, refuse());
    } else if (*entered) {
      count_pending(-1);  // counted twice
      wake();
    }
  }
}

// The program has been told that it is submitted, so the other ranks would wait for it.
void ProcessSet::give_up_turn(const Submission& submission, const Error& why) {
  if (failed()) return;
  abort(Error(why.code(), fmt::format("rank {}: {} has waited for its turn, and cannot enter now: {}", own_world_rank(),
                                      submission.operation().title(), why.message())));
}

Result<bool> ProcessSet::enter(const std::shared_ptr<Submission>& submission) {
  std::optional<TimePoint> began;
  // The rank that is making an entry may have died: then only this thread can find out.
  const auto gave_up = [&] {
    services_.owner.try_check_failures();
    if (!began) began = EngineClock::now();
    return failed() || EngineClock::now() - *began > kTableTimeout;
  };
  // Where the name was last time is where it is now, or the entry has another version.
  ReadinessTable::EntryRef at{submission->progress.entry, submission->progress.version};
  for (bool known = at.entry >= 0;; known = false) {
    if (!known) {
      const auto found = agreement_->find(submission->operation().name, gave_up);
      if (!found) return failure(failed() ? refuse().error() : found.error());
      at = *found;
      submission->progress.version = at.version;
    }
    const auto claim = in_flight_.claim(submission, at.entry);
    if (claim != InFlightTable::Claim::kDone) {
      if (known) continue;
      if (claim == InFlightTable::Claim::kSameName) return false;
      std::this_thread::yield();  // the entry has just passed to another name
      continue;
    }
    count_pending(1);
    // Either this sees that the set has failed, or fail() sees the slot.
    if (!failed_.load(std::memory_order_seq_cst) &&
        agreement_->arrive(at, submission->arrival(), submission->progress.generation)) [[likely]]
      return true;
    if (!in_flight_.retract(*submission)) return true;
    count_pending(-1);
    if (failed()) return failure(refuse().error());
  }
}

Status ProcessSet::join(std::shared_ptr<Submission> submission) {
  if (!join_gate_.close()) return failure(Code::kInvalidArgument, "join: this rank has joined already");
  {
    const std::lock_guard lock(mutex_);
    if (failed()) {
      join_gate_.open();
      return failure(*cause_);
    }
    joining_ = std::move(submission);
    count_pending(1);
  }
  turns_.when_empty([this] { agreement_->join(); });
  return {};
}

void ProcessSet::finish_join(int last_joined) {
  std::shared_ptr<Submission> submission;
  {
    const std::lock_guard lock(mutex_);
    submission = std::move(joining_);
  }
  // Ranks with less data have used fewer unnamed operations.
  turns_.forget_unnamed();
  services_.owner.all_joined(*this);
  join_gate_.open();
  if (submission == nullptr) return;
  submission->outcome.last_joined = ranks_[static_cast<std::size_t>(last_joined)];
  complete(*submission, {});
}

// --- from agreed operations to completed ones ---

void ProcessSet::take_line(std::uint64_t position, TimePoint now, EngineTrace::Recorder& recorder) {
  const AgreedLine agreed = agreement_->line(position);
  const LogLine& line = agreed.line;
  if (line.kind == LogKind::kAllJoined) {
    OpDescriptor op;
    op.kind = OpKind::kBarrier;
    op.internal = InternalKind::kAllJoined;
    taken_.push_back(placeholder_of(op, 0, {}, line.entry));
    return;
  }
  std::shared_ptr<Submission> submission;
  if (agreed.submitted_here) submission = in_flight_.take(line.entry, line.generation);
  if (submission != nullptr) {
    submission->progress.agreed = now;
    const std::int64_t waited = agreed.last_ns - submission->progress.submitted.time_since_epoch().count();
    services_.telemetry.agreed(recorder, *submission, agreed.last_rank,
                               std::chrono::nanoseconds(std::max<std::int64_t>(waited, 0)));
  }
  if (line.kind == LogKind::kRun) {
    if (submission == nullptr) {
      const RankSubmission& theirs = *agreed.agreed;
      submission = placeholder_of(theirs.op, theirs.signature, {theirs.sizes, theirs.op.tensors}, line.entry);
    }
    taken_.push_back(std::move(submission));
    return;
  }
  if (submission == nullptr) return;
  // No data phase follows, which would find that another rank has given up. One that is gone has come before.
  if (const Status group = comm_.progress(); !group && group.error().code() != Code::kPeerLost) {
    taken_.push_back(std::move(submission));
    return fail(group.error());
  }
  if (line.kind == LogKind::kMismatch || line.kind == LogKind::kJoinForbids)
    submission->progress.part_status =
        failure(Code::kInvalidArgument, agreement_->error(line, submission->operation().name));
  complete(*submission, std::move(submission->progress.part_status));
}

bool ProcessSet::take_sealed() {
  bool moved = false;
  for (auto seal = agreement_->next_sealed(); seal; seal = agreement_->next_sealed()) {
    const TimePoint now = EngineClock::now();
    EngineTrace::Recorder recorder = services_.telemetry.trace().recorder();
    for (std::uint64_t position = seal->begin; position < seal->end && !failed(); ++position)
      take_line(position, now, recorder);
    if (failed()) return true;
    if (!taken_.empty()) queue_batches(std::exchange(taken_, {}), seal->knobs, seal->begin);
    moved = true;
  }
  return moved;
}

void ProcessSet::queue_batches(ReadyOps ready, std::uint16_t knobs, std::uint64_t position) {
  const Knobs chosen = Knobs::decode(knobs).value_or(Knobs());
  auto batches =
      plan_batches(std::make_shared<const ReadyOps>(std::move(ready)), {chosen.fusion_threshold, chosen.pack_limit});
  for (auto& batch : batches) {
    const Submission& first = batch->first();
    if (first.operation().op.internal != InternalKind::kAllJoined)
      batch->title = agreement_->name(first.progress.entry);
    if (batch->slices.size() > 1) batch->title += fmt::format(" + {} more", batch->slices.size() - 1);
    if (!batch->fused && batch->op.kind == OpKind::kAllreduce)
      batch->codec_key = agreement_->unique_name(first.progress.entry);
    batch->position = position;
    batch->each_submission([](Submission& submission) { ++submission.progress.parts_left; });
  }
  runner_.add(std::move(batches), chosen.in_flight);
}

bool ProcessSet::start_batches() {
  bool moved = false;
  while (const Batch* const next = runner_.startable()) {
    moved = true;
    if (next->internal())
      run_internal(*runner_.take_next());
    else
      runner_.start();
    if (failed()) return true;
  }
  return moved;
}

void ProcessSet::run_internal(const Batch& batch) {
  Submission& submission = batch.first();
  if (submission.operation().op.internal == InternalKind::kAllJoined) return finish_join(submission.progress.entry);
  const Status status = services_.owner.run_internal(submission);
  if (!submission.done()) finish_part(submission, status);  // the set may have failed meanwhile
}

bool ProcessSet::finish_batches() {
  bool moved = false;
  while (runner_.advance_first(moved)) {
    Batch& batch = runner_.first();
    const Status status = batch.task.result();
    services_.telemetry.batch_done(batch);
    if (status && services_.tuner != nullptr)
      services_.tuner->observe(batch.bytes, batch.tensors(), batch.started, batch.done);
    if (!status) {
      const Status group = comm_.progress();
      if (!group)
        fail(group.error());
      else
        abort(Error(status.error().code(),
                    fmt::format("rank {}: {}: {}", own_world_rank(), batch.title, status.error().message())));
      return true;
    }
    const auto owned = runner_.take_first();
    owned->each_submission([&](Submission& submission) { finish_part(submission, {}); });
  }
  return moved;
}

void ProcessSet::finish_part(Submission& submission, const Status& status) {
  if (submission.operation().placeholder) return;
  if (!status && submission.progress.part_status) submission.progress.part_status = status;
  if (--submission.progress.parts_left != 0) return;
  if (submission.progress.part_status && submission.allocator_refused())
    submission.progress.part_status = failure(
        Code::kResourceExhausted, "{}: the allocator gave no memory for the result", submission.operation().title());
  complete(submission, std::move(submission.progress.part_status));
}

void ProcessSet::complete(Submission& submission, Status status) {
  in_flight_.release(submission);
  services_.telemetry.completing(submission, status);
  const bool frees_turn = submission.operation().queue_same_name && !turns_.empty();
  const std::string name = frees_turn ? submission.operation().name : std::string();
  submission.complete(std::move(status));
  count_pending(-1);
  if (frees_turn) take_turn(name);
}

void ProcessSet::note_completed() {
  const std::uint64_t position = runner_.completed_position(agreement_->sealed_end());
  if (position == noted_completed_) return;
  noted_completed_ = position;
  agreement_->completed(position);
}

void ProcessSet::set_knobs(const Knobs& knobs) noexcept { agreement_->set_knobs(knobs.encode()); }

bool ProcessSet::decide_more() {
  const auto moved = agreement_->progress(runner_.wants_more());
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
    abort(Error(Code::kResourceExhausted, fmt::format("rank {} has no memory left", own_world_rank())));
    return true;
  }
}

bool ProcessSet::progress_until_blocked() {
  bool moved = false;
  while (true) {
    bool again = take_sealed();
    again |= finish_batches();
    if (!failed()) again |= start_batches();
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

// --- failures ---

void ProcessSet::check_failures() {
  if (failed()) return;
  if (const Status status = comm_.progress(); !status) return fail(status.error());
  // Ranks that have left may have taken part in an agreement before: progress() looks at that first.
  if (pending() != 0) departed_ = !host_group_.departed().empty();
}

// Which of several left first is not known.
std::string ProcessSet::describe_departed() const {
  constexpr std::size_t kNamed = 8;
  std::vector<int> gone;
  for (const int member : host_group_.departed()) gone.push_back(ranks_[static_cast<std::size_t>(member)]);
  if (gone.size() == 1) return fmt::format("rank {} has shut its engine down", gone.front());
  const std::size_t named = std::min(gone.size(), kNamed);
  const std::string more = gone.size() > named ? fmt::format(" and {} more", gone.size() - named) : "";
  return fmt::format("ranks {}{} have shut their engines down", fmt::join(std::span(gone).first(named), ", "), more);
}

// Operations that all ranks have agreed on may still complete; all others need the rank that has left.
void ProcessSet::check_departed() {
  const Error cause(Code::kPeerLost, fmt::format("{}; if it only had less data than the others, let each rank call "
                                                 "join() when it has no more",
                                                 describe_departed()));
  for (const Waiting& w : waiting())
    if (!w.missing.empty()) return agreement_->speaks_for_host() ? abort(cause) : fail(cause);
}

void ProcessSet::fail(const Error& cause) {
  if (failed()) return;
  Error told = cause;
  if (id_ != kWorldSet && cause.code() != Code::kPeerLost)
    told = Error(cause.code(), fmt::format("process set {} [{}]: {}", id_, fmt::join(ranks_, ", "), cause.message()));
  ReadyOps lost = runner_.unfinished();
  for (auto& submission : std::exchange(taken_, {}))
    if (!submission->operation().placeholder) lost.push_back(std::move(submission));
  {
    const std::lock_guard lock(mutex_);
    cause_ = told;
    failed_.store(true, std::memory_order_seq_cst);
    if (joining_ != nullptr) lost.push_back(std::move(joining_));
  }
  // Peers must not continue with buffers that their owners get back here.
  if (runner_.running() && comm_.progress()) {
    comm_.backend().abort(Error(cause.code() == Code::kUnavailable ? Code::kPeerLost : cause.code(),
                                fmt::format("rank {} gave up while {} was under way: {}", own_world_rank(),
                                            runner_.first().title, cause.message())));
    [[maybe_unused]] const Status ended = comm_.progress();  // after it no peer uses them
  }
  gpu_comm_->stop(/*failed=*/cause.code() != Code::kUnavailable);
  runner_.clear();
  for (auto& submission : in_flight_.take_all()) lost.push_back(std::move(submission));
  for (auto& submission : turns_.close()) lost.push_back(std::move(submission));
  services_.owner.failing(*this, told);
  for (const auto& submission : lost)
    complete(*submission, failure(told.code(), submission->operation().title() + ": " + told.message()));
}

void ProcessSet::abort(const Error& cause) {
  comm_.backend().abort(cause);
  fail(cause);
}

std::vector<ProcessSet::Waiting> ProcessSet::waiting() const {
  std::vector<Waiting> all;
  in_flight_.each_waiting([&](const std::shared_ptr<Submission>& submission) {
    if (auto missing = agreement_->missing(submission->progress.entry, submission->progress.generation.load()))
      all.push_back({submission, std::move(*missing)});
  });
  return all;
}

}  // namespace xoe::engine
