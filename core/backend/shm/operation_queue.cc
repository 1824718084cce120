#include "core/backend/shm/operation_queue.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "core/base/error.h"
#include "core/base/relax.h"
#include "core/base/text.h"

namespace xoe::shm {
namespace {

// Waiting loops check for failures and read the clock once in this many turns.
constexpr unsigned kTurnsPerCheck = 128;

void write_record(FailureRecord& record, const Error& error) {
  record.code = static_cast<std::uint32_t>(error.code());
  const std::size_t length = std::min(error.message().size(), sizeof record.message - 1);
  std::memcpy(record.message, error.message().data(), length);
  record.message[length] = '\0';
}

// How long to stay awake while no rank takes a step: a wakeup costs some 20 us, so wait a few times that.
constexpr std::chrono::microseconds kAwake(100);
// A limit may be so far away that the clock has no such time.
constexpr std::chrono::hours kLongestSleep(1);

}  // namespace

OperationQueue::OperationQueue(Group group, WaitPolicy policy)
    : group_(std::move(group)),
      policy_(std::move(policy)),
      one_shot_limit_(group_.size() == 1 ? 0 : eager_reduce_limit(group_.size())),
      one_shot_(group_) {}

OperationQueue::~OperationQueue() { leave(); }

OperationQueue::Pending& OperationQueue::take_idle(const Collective& collective) {
  if (idle_.empty()) {
    pool_.push_back(std::make_unique<Pending>(group_));
    idle_.push_back(pool_.back().get());
  }
  Pending& pending = *idle_.back();
  idle_.pop_back();
  pending.limits = policy_.limits;
  if (!policy_.warn) pending.limits.warning = {};
  if (const auto timeout = collective.options.timeout) {
    pending.limits.limit = *timeout;
    pending.limits.spares_computing = false;
  }
  pending.began.reset();
  pending.stall_timer = {};
  pending.error.reset();
  pending.finished = pending.released = false;
  return pending;
}

OperationQueue::Pending& OperationQueue::start(const Collective& collective) {
  Pending& pending = take_idle(collective);
  pending.operation.begin(collective, ++last_number_);
  if (group_.context().any_ended() || group_.failed_by() != 0) [[unlikely]]
    check_peers(nullptr);
  if (failure_) [[unlikely]] {
    pending.error = error_for(pending.operation);
    pending.finished = true;
    return pending;
  }
  queue_.push_back(&pending);
  advance();
  return pending;
}

Status OperationQueue::wait(Pending& pending) {
  const bool yields = group_.context().oversubscribed();
  std::optional<Clock::time_point> still_since;  // no rank has taken a step since
  std::uint64_t steps_seen = 0;
  for (unsigned turn = 1; !pending.finished; ++turn) {
    advance();
    if (pending.finished) break;
    relax(yields);
    if (turn % (yields ? 16 : kTurnsPerCheck) != 0) continue;
    const auto now = Clock::now();
    if (const std::uint64_t now_taken = steps(); !still_since || now_taken != steps_seen) {
      still_since = now;
      steps_seen = now_taken;
    }
    check_peers(&pending);
    check_stall(pending, now);
    if (pending.finished || now - *still_since < kAwake) continue;
    group_.wakeups().sleep(
        [&] {
          check_peers(&pending);
          return pending.finished;
        },
        *pending.began + std::min<std::chrono::nanoseconds>(pending.stall_timer.next(pending.limits), kLongestSleep));
    still_since.reset();
  }
  if (pending.error) return failure(*pending.error);
  return {};
}

std::uint64_t OperationQueue::steps() const noexcept {
  const auto of = [](const RankBlock& block) {
    return block.packed.load(std::memory_order_relaxed) + block.processed.load(std::memory_order_relaxed) +
           block.copied.load(std::memory_order_relaxed);
  };
  if (group_.context().oversubscribed()) return of(group_.own());
  std::uint64_t sum = 0;
  for (int r = 0; r < group_.size(); ++r) sum += of(group_.block(r));
  return sum;
}

Status OperationQueue::progress() {
  check_peers(nullptr);
  if (++progress_calls_ % kTurnsPerCheck == 0) check_time();  // reading the clock takes time too
  if (failure_) return failure(*failure_);
  return {};
}

void OperationQueue::release(Pending& pending) {
  pending.released = true;
  if (pending.finished) idle_.push_back(&pending);
}

// The slots of operation n may be written once all ranks have completed the operation that had them before.
bool OperationQueue::slots_free(std::uint32_t number, std::size_t slots) {
  const auto in_flight = [&] { return std::size_t{number - all_done_}; };
  if (in_flight() <= slots) return true;
  std::uint32_t lowest = number;
  for (int r = 0; r < group_.size(); ++r) {
    const std::uint32_t done = group_.block(r).done.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(done - lowest) < 0) lowest = done;
  }
  all_done_ = lowest;
  return in_flight() <= slots;
}

bool OperationQueue::is_small(const ReduceCall& call) const {
  if (call.count > one_shot_limit_) return false;  // so the product does not overflow
  const std::size_t bytes = call.count * dtype_size(call.dtype);
  const bool fits = bytes != 0 && bytes <= one_shot_limit_;
  const bool has_memory = call.in != nullptr && call.out != nullptr;
  const auto distance = reinterpret_cast<std::uintptr_t>(call.out) - reinterpret_cast<std::uintptr_t>(call.in);
  const bool in_place = distance == 0, apart = distance >= bytes && -distance >= bytes;
  const bool has_meaning = call.dtype != DType::kBool || reduce::supports(call.dtype, call.op);
  return fits && has_memory && (in_place || apart) && has_meaning;
}

bool OperationQueue::run_small(const ReduceCall& call, Status& status) {
  if (!is_small(call)) [[unlikely]]
    return false;
  one_shot_.prepare(CollectiveKind::kAllreduce, call.dtype, call.op, call.count);
  const auto as_collective = [&] {
    return make_allreduce(ConstTensor(call.in, call.count, call.dtype), Tensor(call.out, call.count, call.dtype),
                          call.op);
  };
  return run_one_shot(call.in, call.out, as_collective, status);
}

template <class GetCollective>
bool OperationQueue::run_one_shot(const void* in, void* out, const GetCollective& collective, Status& status) {
  if (!queue_.empty() || failure_ || group_.context().any_ended() || group_.failed_by() != 0 ||
      !slots_free(last_number_ + 1, one_shot_.slot_count())) [[unlikely]]
    return false;
  one_shot_.post(++last_number_, in);
  const bool yields = group_.context().oversubscribed();
  for (unsigned turn = 0; !one_shot_.all_there(); ++turn) {
    if (turn == kTurnsPerCheck || one_shot_.disagrees()) {
      // A rank is late or called something else: the call becomes an operation like any other.
      Pending& pending = take_idle(collective());
      pending.operation.begin_posted(collective(), last_number_, one_shot_.flag());
      queue_.push_back(&pending);
      ++posted_;
      status = wait(pending);
      release(pending);
      return true;
    }
    relax(yields);
  }
  one_shot_.finish(in, out);
  group_.own().done.store(last_number_, std::memory_order_release);
  group_.wakeups().publish();
  return true;
}

Status OperationQueue::run(const Collective& collective) {
  if (fits_one_shot(collective, group_.size())) {
    one_shot_.prepare(collective);
    const auto itself = [&]() -> const Collective& { return collective; };
    if (Status quick; run_one_shot(collective.in, collective.out, itself, quick)) return quick;
  }
  Pending& pending = start(collective);
  Status status = wait(pending);
  release(pending);
  return status;
}

void OperationQueue::advance() {
  if (failure_) return;
  if (const auto failed_by = group_.failed_by(); failed_by != 0) [[unlikely]]
    return fail(recorded_failure(failed_by), false);
  for (; posted_ < queue_.size() && can_post(queue_[posted_]->operation); ++posted_) {
    queue_[posted_]->operation.post();
    one_shot_.forget(queue_[posted_]->operation.number());
  }
  for (std::size_t i = 0; i < posted_; ++i) {
    Operation& operation = queue_[i]->operation;
    if (Status status = operation.advance(next_round_); !status) [[unlikely]] {
      fail(std::move(status).error(), true);
      return;
    }
    if (!operation.drained()) break;
  }
  while (!queue_.empty() && queue_.front()->operation.done()) finish_front();
}

void OperationQueue::finish_front() {
  Pending& pending = *queue_.front();
  queue_.pop_front();
  --posted_;
  group_.own().done.store(pending.operation.number(), std::memory_order_release);
  group_.wakeups().publish();
  pending.finished = true;
  if (pending.released) idle_.push_back(&pending);
}

// The first rank that ended without leaving the group, or -1. A rank sets `leaving` before it ends.
int OperationQueue::first_lost() const {
  int first = -1;
  for (int r = 0; r < group_.size(); ++r) {
    const int order = group_.ended(r);
    if (order == 0 || (first >= 0 && group_.ended(first) < order)) continue;
    if (!group_.own().leaving.has(r)) first = r;
  }
  return first;
}

void OperationQueue::check_peers(const Pending* waiting) {
  const int lost = group_.context().any_ended() ? first_lost() : -1;
  const auto leaving = group_.own().leaving.copy(group_.size());
  advance();  // data that they published before they ended or left still counts
  if (failure_ || (waiting != nullptr && waiting->finished)) return;
  if (lost >= 0)
    return fail(
        Error(Code::kPeerLost, group_.who(lost) + " ended without leaving the group (killed, crashed or exited early)"),
        true);
  if (leaving.empty() || queue_.empty()) return;
  for (const int r : queue_.front()->operation.waiting_for())
    if (leaving.has(r))
      return fail(Error(Code::kPeerLost, group_.who(r) + " has left the group (its communicator was destroyed)"), true);
}

void OperationQueue::check_time() {
  if (!queue_.empty()) check_stall(*queue_.front(), Clock::now());
}

void OperationQueue::check_stall(Pending& pending, Clock::time_point now) {
  if (!pending.began) pending.began = now;
  if (failure_ || pending.finished) return;
  const auto waited = now - *pending.began;
  const Operation& stuck = queue_.front()->operation;
  const auto used = [&] {
    CpuUse all;
    for (const int r : stuck.waiting_for()) all.add(group_.activity(r));
    return all;
  };
  switch (pending.stall_timer.check(pending.limits, waited, used)) {
    case StallTimer::Action::kNothing: return;
    case StallTimer::Action::kWarning: return policy_.warn(late_peers(stuck, waited));
    case StallTimer::Action::kLimit: return fail(Error(Code::kTimeout, late_peers(stuck, waited)), true);
  }
}

std::string OperationQueue::late_peers(const Operation& stuck, Clock::duration waited) const {
  std::string missing;
  for (const int r : stuck.waiting_for()) {
    const auto done = group_.block(r).done.load(std::memory_order_acquire);
    missing += fmt::format("{}{} (completed {}{})", missing.empty() ? "" : ", ", group_.who(r),
                           counted(done - kBeforeFirst, "operation"),
                           group_.activity(r).value_or(ProcessActivity()).stopped ? "; its process is stopped" : "");
  }
  return fmt::format("{}: {} waited {} for {}", stuck.title(), group_.who(group_.rank()), human_seconds(waited),
                     missing);
}

void OperationQueue::fail(Error cause, bool tell_peers) {
  if (failure_) return;
  failure_ = std::move(cause);
  if (tell_peers) {
    write_record(group_.own().failure, *failure_);
    std::uint32_t first = 0;
    if (!group_.block(0).failed_by.compare_exchange_strong(first, static_cast<std::uint32_t>(group_.rank()) + 1,
                                                           std::memory_order_acq_rel))
      failure_ = recorded_failure(first);
    group_.wakeups().wake_all();
  }
  if (!wait_for_peers_in_buffers()) take_back_outputs();
  posted_ = 0;
  for (Pending* pending : std::exchange(queue_, {})) {
    pending->error = error_for(pending->operation);
    pending->finished = true;
    if (pending->released) idle_.push_back(pending);
  }
}

void OperationQueue::abort(const Error& cause) {
  std::uint32_t idle = 0;
  if (!group_.own().aborting.compare_exchange_strong(idle, 1, std::memory_order_acq_rel)) return;
  write_record(group_.own().aborted, cause);
  std::uint32_t first = 0;
  group_.block(0).failed_by.compare_exchange_strong(first, kAborted + static_cast<std::uint32_t>(group_.rank()) + 1,
                                                    std::memory_order_acq_rel);
  group_.wakeups().wake_all();
}

// Called when failed_by is set: from now on no peer enters a buffer, and a peer that is in one stays for as long as a
// round takes. False: one is still there, it has been stopped.
bool OperationQueue::wait_for_peers_in_buffers() const {
  constexpr std::chrono::milliseconds kTimeout(500);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto until = Clock::now() + kTimeout;
  const auto is_in = [&](int r) {
    return r != group_.rank() && group_.block(r).busy.load(std::memory_order_acquire) != 0 && group_.ended(r) == 0;
  };
  bool none = true;
  for (int r = 0; r < group_.size(); ++r) {
    while (is_in(r) && Clock::now() < until) std::this_thread::sleep_for(std::chrono::microseconds(50));
    // A thread of this process writes wherever it writes.
    if (is_in(r) && group_.member(r).pid != group_.member(group_.rank()).pid) none = false;
  }
  return none;
}

// A peer that was stopped while it reduced goes on where it was when it is let go.
void OperationQueue::take_back_outputs() const {
  Arena& arena = *group_.context().arena();
  bool taken = true;
  for (const Pending* pending : queue_)
    pending->operation.each_output_of_peers([&](const void* data, std::size_t bytes) {
      if (bytes != 0) taken = arena.take_back(data, bytes) && taken;
    });
  if (!taken && policy_.warn)
    policy_.warn(
        fmt::format("{}: no memory to take back the results of failed operations from a peer that is stopped; "
                    "it may still write to them if it is let go",
                    group_.who(group_.rank())));
}

std::vector<int> OperationQueue::departed() const {
  const auto leaving = group_.own().leaving.copy(group_.size());
  std::vector<int> ranks;
  if (leaving.empty()) return ranks;
  for (int r = 0; r < group_.size(); ++r)
    if (leaving.has(r)) ranks.push_back(r);
  return ranks;
}

Error OperationQueue::recorded_failure(std::uint32_t failed_by) const {
  const RankBlock& block = group_.block(static_cast<int>(failed_by % kAborted) - 1);
  const FailureRecord& record = failed_by > kAborted ? block.aborted : block.failure;
  const char* end = std::find(record.message, std::end(record.message), '\0');
  return Error(static_cast<Code>(record.code), std::string(record.message, end));
}

Error OperationQueue::error_for(const Operation& operation) const {
  const bool names_operation = failure_->code() != Code::kPeerLost;
  return names_operation ? *failure_ : Error(failure_->code(), operation.title() + ": " + failure_->message());
}

void OperationQueue::leave() {
  if (std::exchange(left_, true)) return;
  if (group_.member(group_.rank()).pid != ::getpid()) return;  // a forked child is not the rank
  // The peers may still use the buffers of pending operations, which their owner now takes back.
  if (!failure_ && !queue_.empty())
    fail(
        Error(Code::kPeerLost, group_.who(group_.rank()) + " destroyed its communicator while operations were pending"),
        true);
  if (!failure_) failure_ = Error(Code::kInvalidArgument, "the communicator was destroyed");
  for (int r = 0; r < group_.size(); ++r) group_.block(r).leaving.add(group_.rank());
  group_.wakeups().wake_all();
  // From here on the peers may free their blocks.
  for (int r = 0; r < group_.size(); ++r) group_.block(r).left.add(group_.rank());
  group_.context().retire(group_.own_offset(), group_.size(), std::move(extents_));
}

}  // namespace xoe::shm
