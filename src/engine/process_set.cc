#include "engine/process_set.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "base/hash.h"
#include "engine/tuning/knobs.h"
#include "engine/set_observer.h"

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

ProcessSet::ProcessSet(ProcessSetId id, Communicator comm, std::vector<int> ranks, SetObserver& observer)
    : id_(id),
      ranks_(std::move(ranks)),
      comm_(std::move(comm)),
      rank_(comm_.rank()),
      observer_(observer),
      shop_{.comm = comm_} {}

ProcessSet::~ProcessSet() = default;

Result<std::unique_ptr<ProcessSet>> ProcessSet::create(ProcessSetId id, Communicator comm, std::vector<int> ranks,
                                                       const EngineOptions& options, SetObserver& observer) {
  std::unique_ptr<ProcessSet> set(new ProcessSet(id, std::move(comm), std::move(ranks), observer));
  Backend& backend = set->comm_.backend();
  const std::vector<int>& hosts = backend.hosts();
  std::vector<int> local;
  for (int r = 0; r < set->size(); ++r)
    if (hosts[static_cast<std::size_t>(r)] == hosts[static_cast<std::size_t>(set->rank_)]) local.push_back(r);
  const auto own = std::find(local.begin(), local.end(), set->rank_) - local.begin();
  XOE_ASSIGN(std::byte* const memory,
             backend.host_memory(Board::bytes(options.cache_capacity, static_cast<int>(local.size()))));
  set->many_hosts_ = *std::max_element(hosts.begin(), hosts.end()) > 0;
  set->board_ =
      std::make_unique<Board>(memory, options.cache_capacity, static_cast<int>(own), std::move(local), set->many_hosts_);
  if (set->many_hosts_) XOE_TRY(set->connect_hosts(hosts));
  set->slots_ = std::vector<Slot>(static_cast<std::size_t>(set->board_->capacity()));
  set->set_knobs(Knobs::nearest(options.fusion_threshold, options.pack_limit, options.in_flight));
  return set;
}

Status ProcessSet::connect_hosts(const std::vector<int>& hosts) {
  std::vector<int> leaders;  // the first rank of each host
  for (std::size_t r = 0; r < hosts.size(); ++r)
    if (hosts[r] == static_cast<int>(leaders.size())) leaders.push_back(static_cast<int>(r));
  XOE_ASSIGN(link_, make_shared_link(comm_, leaders));
  if (link_.link == nullptr) return {};
  leader_ = std::make_unique<Leader>(*board_, hosts[static_cast<std::size_t>(rank_)], static_cast<int>(leaders.size()),
                                     std::move(link_.link), [this](const LogLine& line) { return describe_mismatch(line); });
  return {};
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
  pending_.fetch_add(change, std::memory_order_acq_rel);
  observer_.pending().fetch_add(change, std::memory_order_acq_rel);
}

Status ProcessSet::submit(std::shared_ptr<Submission> submission) {
  const auto gate = join_gate_.fetch_add(1, std::memory_order_seq_cst);
  Status status;
  if ((gate & kJoined) != 0)
    status = failure(Code::kInvalidArgument, "{}: this rank has joined, and submits nothing until all ranks have",
                     submission->title());
  else if (failed())
    status = refuse();
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
    XOE_ASSIGN(const Board::Place place, board_->find(submission->name, gave_up));
    Slot& slot = slots_[static_cast<std::size_t>(place.entry)];
    submission->entry = place.entry;
    submission->self = submission;
    std::uint64_t occupant = 0;
    if (!slot.compare_exchange_strong(occupant, mine, std::memory_order_acq_rel)) {
      submission->self.reset();
      if ((occupant >> kAddressBits) == (mine >> kAddressBits))
        return failure(Code::kInvalidArgument,
                       "{}: this name is in flight already: wait for the handle of its first submission",
                       submission->title());
      std::this_thread::yield();  // the entry has just passed to another name
      continue;
    }
    count_pending(1);
    RankNote& note = board_->note(board_->rank());
    note.submissions.fetch_add(1, std::memory_order_relaxed);
    note.last_entry.store(place.entry + 1, std::memory_order_relaxed);
    const bool arrived = board_->arrive(place, submission->arrival(), submission->generation);
    if (arrived && !failed()) [[likely]]
      return {};
    // Whoever empties the slot answers: this thread, or fail().
    const std::lock_guard lock(retract_mutex_);
    std::uint64_t expected = mine;
    if (!slot.compare_exchange_strong(expected, 0, std::memory_order_acq_rel)) return {};
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
  board_->join();
  return {};
}

// --- what has been agreed ---

std::shared_ptr<Submission> ProcessSet::take_submission(const LogLine& line) {
  Submission* submission = untag(slots_[static_cast<std::size_t>(line.entry)].load(std::memory_order_acquire));
  if (submission == nullptr || submission->generation.load(std::memory_order_relaxed) != line.generation ||
      board_->words(line, board_->rank()) == nullptr)
    return nullptr;
  return std::move(submission->self);
}

// Every rank of a host builds the same text.
std::string ProcessSet::describe_mismatch(const LogLine& line) const {
  if (line.kind == LogKind::kJoinForbids) return "a rank has joined, and this operation needs data from it";
  std::vector<std::pair<std::string, std::vector<int>>> said;
  for (int r = 0; r < board_->ranks(); ++r) {
    const Words* words = board_->words(line, r);
    if (words == nullptr) continue;
    const std::string text(words->text, words->text_length);
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
    message = board_->error(line);
  else
    message = fmt::format("'{}': {}{}", submission.name, line.kind == LogKind::kMismatch ? "ranks disagree: " : "",
                          describe_mismatch(line));
  if (message.empty()) message = fmt::format("'{}': ranks disagree", submission.name);
  submission.part_status = failure(Code::kInvalidArgument, std::move(message));
}

void ProcessSet::finish_join(const LogLine& line) {
  std::shared_ptr<Submission> submission;
  {
    const std::lock_guard lock(join_mutex_);
    submission = std::move(joining_);
  }
  join_gate_.fetch_and(~kJoined, std::memory_order_seq_cst);
  if (submission == nullptr) return;
  submission->last_joined = ranks_[static_cast<std::size_t>(line.entry)];
  complete(*submission, {});
}

void ProcessSet::tell_agreed(const LogLine& line, Submission& submission) {
  int last = -1;
  std::int64_t latest = 0;
  for (int r = 0; r < board_->ranks(); ++r)
    if (const Words* words = board_->words(line, r); words != nullptr && (last < 0 || words->arrived_ns > latest)) {
      last = r;
      latest = words->arrived_ns;
    }
  const std::int64_t waited = latest - submission.submitted.time_since_epoch().count();
  observer_.agreed(*this, submission, world_rank(last), std::chrono::nanoseconds(std::max<std::int64_t>(waited, 0)));
}

void ProcessSet::take_line(std::uint64_t position, std::vector<Item>& items) {
  const LogLine line = board_->line(position);
  if (line.kind == LogKind::kAllJoined) {
    Item item{.line = line};
    item.traits.internal = static_cast<std::uint8_t>(InternalKind::kAllJoined);
    items.push_back(std::move(item));
    return;
  }
  auto submission = take_submission(line);
  if (submission != nullptr) {
    submission->agreed = EngineClock::now();
    tell_agreed(line, *submission);
  }
  if (line.kind == LogKind::kRun) {
    const Words& words = board_->agreed(line);
    Item item{line, words.signature, words.traits, {}, std::move(submission)};
    if (item.submission != nullptr)
      item.sizes = item.submission->sizes;
    else
      item.sizes.assign(words.sizes, words.sizes + words.traits.tensors);
    items.push_back(std::move(item));
    return;
  }
  if (submission == nullptr) return;
  if (line.kind == LogKind::kMismatch || line.kind == LogKind::kJoinForbids) answer_mismatch(line, *submission);
  complete(*submission, std::move(submission->part_status));
}

bool ProcessSet::take_seals() {
  bool moved = false;
  for (Board::Seal seal = board_->seal(seal_number_); seal.end != Board::kUnsealed; seal = board_->seal(seal_number_)) {
    std::vector<Item> items;
    const std::uint64_t begin = sealed_end_;
    for (std::uint64_t position = begin; position < seal.end; ++position) take_line(position, items);
    ++seal_number_;
    sealed_end_ = seal.end;
    if (!items.empty()) queue_batches(std::move(items), seal.knobs, begin);
    moved = true;
  }
  return moved;
}

void ProcessSet::queue_batches(std::vector<Item> items, std::uint16_t knobs, std::uint64_t position) {
  const auto shared = std::make_shared<std::vector<Item>>(std::move(items));
  const auto name = [&](std::size_t item) { return board_->name((*shared)[item].line.entry); };
  const Knobs chosen = Knobs::decode(knobs).value_or(Knobs());
  const FusionLimits limits{chosen.fusion_threshold, chosen.pack_limit};
  in_flight_ = chosen.in_flight;
  for (Batch& batch : plan_batches(*shared, limits)) {
    auto running = std::make_unique<Running>();
    if (const std::size_t item = batch.fused ? batch.pieces[0].item : batch.item;
        (*shared)[item].line.kind != LogKind::kAllJoined)
      running->title = name(item);
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
    const bool internal = !queued_.front()->batch.fused && item.traits.internal != 0;
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
      finish_part(item.submission, observer_.run_internal(*item.submission));
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
  for (auto place = running_.begin(); place != running_.end();) {
    Running& running = **place;
    const bool followed = running.may_follow;
    if (!running.task.advance()) {
      moved |= running.may_follow != followed;
      ++place;
      continue;
    }
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
    const auto owned = std::move(*place);
    place = running_.erase(place);
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
    submission->part_status = failure(Code::kResourceExhausted, "{}: the allocator gave no memory for the result",
                                      submission->title());
  complete(*submission, std::move(submission->part_status));
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

void ProcessSet::note_completed() {
  std::uint64_t position = sealed_end_;
  if (!queued_.empty()) position = queued_.front()->position;
  if (!running_.empty()) position = std::min(position, running_.front()->position);
  if (position == noted_completed_) return;
  noted_completed_ = position;
  board_->completed(position);
}

void ProcessSet::set_knobs(const Knobs& knobs) noexcept {
  if (rank_ == 0) board_->knobs().store(knobs.encode(), std::memory_order_relaxed);
}

bool ProcessSet::seal_more() {
  const auto knobs = static_cast<std::uint16_t>(board_->knobs().load(std::memory_order_relaxed));
  const bool idle = queued_.empty() && static_cast<int>(running_.size()) < in_flight_;
  if (!many_hosts_) {
    if (idle) board_->try_seal(seal_number_, sealed_end_, knobs);
    return false;
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
  bool moved = false;
  while (true) {
    bool again = take_seals();
    again |= run_batches();
    again |= start_batches();
    if (failed()) return true;
    again |= seal_more();
    if (failed()) return true;
    if (!again && board_->seal(seal_number_).end == Board::kUnsealed) break;
    moved = true;
  }
  note_completed();
  return moved;
}

// --- failing ---

void ProcessSet::look_for_failures() {
  if (failed()) return;
  if (const Status status = comm_.progress(); !status) return fail(status.error());
  if (pending() == 0) return;
  const std::vector<int> departed = comm_.backend().departed();
  if (departed.empty()) return;
  // What all ranks have agreed upon may still complete; all else needs the one that has gone.
  if (leader_ != nullptr) advance();  // it may have said something before it went
  if (failed()) return;
  const Error cause(Code::kPeerLost,
                    fmt::format("rank {} has shut its engine down", ranks_[static_cast<std::size_t>(departed.front())]));
  for (const Waiting& w : waiting())
    if (!w.missing.empty()) return leader_ != nullptr ? abort(cause) : fail(cause);
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
  if (!running_.empty() && comm_.progress())
    comm_.backend().abort(Error(cause.code() == Code::kUnavailable ? Code::kPeerLost : cause.code(), fmt::format("rank {} gave up while {} was under way: {}",
                                                             ranks_[static_cast<std::size_t>(rank_)],
                                                             running_.front()->title, cause.message())));
  running_.clear();
  queued_.clear();
  for (Slot& slot : slots_)
    if (Submission* submission = untag(slot.exchange(0, std::memory_order_acq_rel)); submission != nullptr)
      if (auto held = std::move(submission->self); held != nullptr) lost.push_back(std::move(held));
  observer_.failing(*this, told);
  for (const auto& submission : lost) complete(*submission, error_for(*submission, told));
}

void ProcessSet::abort(Error cause) {
  comm_.backend().abort(cause);
  fail(cause);
}

// Complete on this host: the leader knows which hosts below it in the tree it waits for.
void ProcessSet::add_missing_hosts(Waiting& waiting) const {
  const std::vector<int>& hosts = comm_.backend().hosts();
  for (const int host : leader_->missing_hosts(board_->unique_name(waiting.submission->entry)))
    for (std::size_t r = 0; r < hosts.size(); ++r)
      if (hosts[r] == host) {
        waiting.missing.push_back(ranks_[r]);
        waiting.last.push_back("on a host that has not got it complete");
      }
}

std::vector<ProcessSet::Waiting> ProcessSet::waiting() const {
  const std::lock_guard lock(retract_mutex_);
  std::vector<Waiting> all;
  for (const Slot& slot : slots_) {
    Submission* submission = untag(slot.load(std::memory_order_acquire));
    if (submission == nullptr || submission->self == nullptr) continue;
    Waiting waiting{submission->self, {}, {}};
    for (const int r : board_->missing(submission->entry, submission->generation.load())) {
      waiting.missing.push_back(world_rank(r));
      const int last = board_->note(r).last_entry.load(std::memory_order_relaxed);
      waiting.last.push_back(last == 0 ? "has submitted nothing there yet"
                                       : fmt::format("last submitted '{}' there", board_->name(last - 1)));
    }
    if (waiting.missing.empty() && many_hosts_) {
      if (leader_ != nullptr) add_missing_hosts(waiting);
      all.push_back(std::move(waiting));
    } else if (!waiting.missing.empty()) {
      all.push_back(std::move(waiting));
    }
  }
  return all;
}

}  // namespace xoe::engine
