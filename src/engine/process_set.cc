#include "engine/process_set.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/hash.h"
#include "engine/set_observer.h"
#include "engine/tuning/knobs.h"

namespace xoe::engine {
namespace {

constexpr int kAddressBits = 48;
constexpr std::uint64_t kAddressMask = (std::uint64_t{1} << kAddressBits) - 1;
constexpr std::uint64_t kJoined = std::uint64_t{1} << 63;
constexpr std::uint32_t kUnnamed = 1024;  // names for nameless operations of a kind, used in turns
constexpr std::chrono::seconds kTablePatience(10);

std::uint64_t tag(Submission& submission) {
  return reinterpret_cast<std::uint64_t>(&submission) | hash_text(submission.name) << kAddressBits;
}

Submission* untag(std::uint64_t slot) { return reinterpret_cast<Submission*>(slot & kAddressMask); }

Status error_for(const Submission& submission, const Error& cause) {
  return failure(cause.code(), submission.title() + ": " + cause.message());
}

}  // namespace

ProcessSet::ProcessSet(ProcessSetId id, Communicator comm, std::vector<int> ranks, std::shared_ptr<GpuPort> gpu,
                       SetObserver& observer)
    : id_(id),
      ranks_(std::move(ranks)),
      lane_(std::make_unique<GpuLane>(std::move(gpu), net::Members{.ranks = ranks_, .self = comm.rank()},
                                      [this] { wake(); })),
      comm_(std::move(comm)),
      host_group_(comm_.backend().host_group()),
      rank_(comm_.rank()),
      observer_(observer),
      shop_{.comm = comm_, .lane = lane_.get()} {}

ProcessSet::~ProcessSet() { lane_->stop(/*failed=*/false); }

Result<std::unique_ptr<ProcessSet>> ProcessSet::create(ProcessSetId id, Communicator comm, std::vector<int> ranks,
                                                       const EngineOptions& options, std::shared_ptr<GpuPort> gpu,
                                                       SetObserver& observer) {
  std::unique_ptr<ProcessSet> set(new ProcessSet(id, std::move(comm), std::move(ranks), std::move(gpu), observer));
  // All ranks must lay out the table alike.
  std::int64_t capacity = std::clamp(options.cache_capacity, 1, kMaxLogEntries);
  XOE_TRY(set->comm_.broadcast(Tensor(&capacity, 1), 0, {.name = "cache_capacity"}));
  XOE_ASSIGN(set->agreement_, Agreement::create(set->comm_, set->ranks_, static_cast<int>(capacity)));
  set->slots_ = std::vector<Slot>(static_cast<std::size_t>(set->agreement_->capacity()));
  set->set_knobs(Knobs::nearest(options.fusion_threshold, options.pack_limit, options.in_flight));
  return set;
}

// --- submitting ---

std::string ProcessSet::next_name(OpKind kind) {
  const auto n = unnamed_[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
  return fmt::format("unnamed.{}.{}", op_kind_name(kind), n % kUnnamed);
}

Status ProcessSet::refuse() const {
  const std::lock_guard lock(cause_mutex_);
  return failure(*cause_);
}

void ProcessSet::count_pending(int change) noexcept {
  pending_.fetch_add(change, std::memory_order_seq_cst);
  observer_.pending().fetch_add(change, std::memory_order_seq_cst);
}

Status ProcessSet::submit(std::shared_ptr<Submission> submission) {
  const auto gate = join_gate_.fetch_add(1, std::memory_order_seq_cst);
  Status status;
  if (failed())
    status = refuse();
  else if ((gate & kJoined) != 0)
    status = failure(Code::kInvalidArgument, "{}: this rank has joined, and submits nothing until all ranks have",
                     submission->title());
  else
    status = arrive(submission);
  join_gate_.fetch_sub(1, std::memory_order_seq_cst);
  return status;
}

Status ProcessSet::arrive(const std::shared_ptr<Submission>& submission) {
  const std::uint64_t mine = tag(*submission);
  const auto began = EngineClock::now();
  // The rank that is making entries may have died over it, and then nobody but us finds out.
  const auto gave_up = [&] {
    observer_.look_for_failures();
    return failed() || EngineClock::now() - began > kTablePatience;
  };
  while (true) {
    const auto found = agreement_->find(submission->name, gave_up);
    if (!found) return failed() ? refuse() : Status(failure(found.error()));
    Slot& slot = slots_[static_cast<std::size_t>(found->entry)];
    submission->entry = found->entry;
    submission->self = submission;
    std::uint64_t occupant = 0;
    if (!slot.compare_exchange_strong(occupant, mine, std::memory_order_seq_cst)) {
      submission->self.reset();
      if ((occupant >> kAddressBits) == (mine >> kAddressBits))
        return failure(Code::kInvalidArgument,
                       "{}: this name is in flight already: wait for the handle of its first submission",
                       submission->title());
      std::this_thread::yield();  // the entry has just passed to another name
      continue;
    }
    count_pending(1);
    // Either this sees that the set has failed, or fail() sees the slot.
    if (!failed_.load(std::memory_order_seq_cst) &&
        agreement_->arrive(*found, submission->arrival(), submission->generation)) [[likely]]
      return {};
    // Whoever empties the slot answers: this thread, or fail().
    const std::lock_guard lock(retract_mutex_);
    std::uint64_t expected = mine;
    if (!slot.compare_exchange_strong(expected, 0, std::memory_order_seq_cst)) return {};
    submission->self.reset();
    count_pending(-1);
    if (failed()) return refuse();
  }
}

Status ProcessSet::join(std::shared_ptr<Submission> submission) {
  if ((join_gate_.fetch_or(kJoined, std::memory_order_seq_cst) & kJoined) != 0)
    return failure(Code::kInvalidArgument, "join: this rank has joined already");
  while ((join_gate_.load(std::memory_order_seq_cst) & ~kJoined) != 0) std::this_thread::yield();
  {
    const std::lock_guard lock(join_mutex_);
    if (failed()) {
      join_gate_.fetch_and(~kJoined, std::memory_order_seq_cst);
      return refuse();
    }
    joining_ = std::move(submission);
    count_pending(1);
  }
  agreement_->join();
  return {};
}

void ProcessSet::finish_join(const LogLine& line) {
  std::shared_ptr<Submission> submission;
  {
    const std::lock_guard lock(join_mutex_);
    submission = std::move(joining_);
  }
  // Ranks that had less data have used fewer of the names that count up.
  for (auto& count : unnamed_) count.store(0, std::memory_order_relaxed);
  observer_.all_joined(*this);
  join_gate_.fetch_and(~kJoined, std::memory_order_seq_cst);
  if (submission == nullptr) return;
  submission->last_joined = ranks_[static_cast<std::size_t>(line.entry)];
  complete(*submission, {});
}

// --- handing out and completing ---

std::shared_ptr<Submission> ProcessSet::take_submission(const AgreedLine& agreed) {
  Submission* submission = untag(slots_[static_cast<std::size_t>(agreed.line.entry)].load(std::memory_order_acquire));
  if (submission == nullptr || submission->generation.load(std::memory_order_relaxed) != agreed.line.generation ||
      !agreed.submitted_here)
    return nullptr;
  return std::move(submission->self);
}

void ProcessSet::complete(Submission& submission, Status status) {
  if (submission.entry >= 0) {
    std::uint64_t expected = tag(submission);
    slots_[static_cast<std::size_t>(submission.entry)].compare_exchange_strong(expected, 0, std::memory_order_acq_rel);
  }
  observer_.completing(*this, submission, status);
  submission.complete(std::move(status));
  count_pending(-1);
}

// --- failing ---

void ProcessSet::look_for_failures() {
  if (failed()) return;
  if (const Status status = comm_.progress(); !status) return fail(status.error());
  // Ranks that have left may have taken part in an agreement before: advance() looks at that first.
  if (pending() != 0) departed_ = !host_group_.departed().empty();
}

// What all ranks have agreed on may still complete; all else needs the rank that has left.
void ProcessSet::check_departed() {
  const Error cause(Code::kPeerLost, fmt::format("rank {} has shut its engine down",
                                                 ranks_[static_cast<std::size_t>(host_group_.departed().front())]));
  for (const Waiting& w : waiting())
    if (!w.missing.empty()) return agreement_->speaks_for_host() ? abort(cause) : fail(cause);
}

void ProcessSet::fail(const Error& cause) {
  if (failed()) return;
  Error told = cause;
  if (id_ != kWorldSet && cause.code() != Code::kPeerLost)
    told = Error(cause.code(), fmt::format("process set {} [{}]: {}", id_, fmt::join(ranks_, ", "), cause.message()));
  {
    const std::lock_guard lock(cause_mutex_);
    cause_ = told;
  }
  std::vector<std::shared_ptr<Submission>> lost;
  for (Item& item : taken_)
    if (item.submission != nullptr) lost.push_back(std::move(item.submission));
  taken_.clear();
  for (const auto* batches : {&running_, &queued_})
    for (const auto& running : *batches)
      for (const Item& item : *running->items)
        if (item.submission != nullptr && !item.submission->done() &&
            std::find(lost.begin(), lost.end(), item.submission) == lost.end())
          lost.push_back(item.submission);
  {
    const std::lock_guard lock(join_mutex_);
    failed_.store(true, std::memory_order_seq_cst);
    if (joining_ != nullptr) lost.push_back(std::move(joining_));
  }
  // Peers must not go on with buffers that are given back here.
  if (!running_.empty() && comm_.progress()) {
    comm_.backend().abort(
        Error(cause.code() == Code::kUnavailable ? Code::kPeerLost : cause.code(),
              fmt::format("rank {} gave up while {} was under way: {}", ranks_[static_cast<std::size_t>(rank_)],
                          running_.front()->title, cause.message())));
    [[maybe_unused]] const Status ended = comm_.progress();  // after this they do not
  }
  lane_->stop(/*failed=*/cause.code() != Code::kUnavailable);
  running_.clear();
  queued_.clear();
  for (Slot& slot : slots_)
    if (Submission* submission = untag(slot.exchange(0, std::memory_order_seq_cst)); submission != nullptr)
      if (auto held = std::move(submission->self); held != nullptr) lost.push_back(std::move(held));
  observer_.failing(*this, told);
  for (const auto& submission : lost) complete(*submission, error_for(*submission, told));
}

void ProcessSet::abort(Error cause) {
  comm_.backend().abort(cause);
  fail(cause);
}

std::vector<ProcessSet::Waiting> ProcessSet::waiting() const {
  const std::lock_guard lock(retract_mutex_);
  std::vector<Waiting> all;
  for (const Slot& slot : slots_) {
    Submission* submission = untag(slot.load(std::memory_order_acquire));
    if (submission == nullptr || submission->self == nullptr) continue;
    if (auto missing = agreement_->missing(submission->entry, submission->generation.load()))
      all.push_back({submission->self, std::move(*missing)});
  }
  return all;
}

}  // namespace xoe::engine
