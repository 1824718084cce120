#include "engine/runtime/progress_engine.h"

#include <signal.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/futex.h"
#include "base/relax.h"

namespace xoe::engine {
namespace {

// How long a waiting thread spins before it sleeps, and how many turns pass between two looks at the clock.
constexpr std::chrono::microseconds kSpin(100);
constexpr unsigned kTurnsPerCheck = 128;
constexpr unsigned kYieldsPerCheck = 16;
constexpr unsigned kPollsPerCheck = 64;
// Submissions this close to each other are a burst. It makes progress this often.
constexpr std::chrono::nanoseconds kClose = std::chrono::microseconds(10);
constexpr std::chrono::nanoseconds kBurst = std::chrono::microseconds(30);
constexpr std::chrono::microseconds kNap(1000);
// So many submissions and polls during a nap are a burst.
constexpr std::uint32_t kBurstActivity = 8;

// The program's signals are for the program's threads.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

// --- progress ---

bool ProgressEngine::progress_locked() {
  bool moved = false;
  sets_.each([&](ProcessSet& set) { moved |= set.progress(); });
  bool busy = false;
  sets_.each([&](const ProcessSet& set) { busy |= set.busy(); });
  busy_.store(busy, std::memory_order_relaxed);
  if (moved && pending().load() == 0 && tuner_ != nullptr)
    if (const auto knobs = tuner_->end_step()) {
      telemetry_.metrics().knobs(*knobs);
      sets_.each([&](ProcessSet& set) { set.set_knobs(*knobs); });
    }
  return moved;
}

bool ProgressEngine::try_progress() {
  const std::unique_lock lock(lock_, std::try_to_lock);
  return lock && progress_locked();
}

bool ProgressEngine::progress() {
  const std::lock_guard lock(lock_);
  return progress_locked();
}

// An idle wire sends at once. The submissions of a burst do not make progress one by one: they become ready together
// and travel together. So do those that come while the wire is busy.
bool ProgressEngine::starts_burst(std::int64_t now_ns) noexcept {
  const std::int64_t last_submitted = last_submitted_ns_.load(std::memory_order_relaxed);
  last_submitted_ns_.store(now_ns, std::memory_order_relaxed);
  const bool burst_is_over = now_ns - last_burst_ns_.load(std::memory_order_relaxed) >= kBurst.count();
  const bool is_close = now_ns - last_submitted < kClose.count();
  const bool starts = burst_is_over || (!is_close && !busy_.load(std::memory_order_relaxed));
  if (starts) last_burst_ns_.store(now_ns, std::memory_order_relaxed);
  return starts;
}

void ProgressEngine::submitted(const Submission& submission) {
  if (starts_burst(submission.progress.submitted.time_since_epoch().count())) try_progress();
  if (!has_thread_ || pending().load() == 0) return;
  if (submission.has_callback() && urgent_.exchange(1, std::memory_order_seq_cst) == 0) futex_wake_all(urgent_);
  wake_progress_thread();
}

bool ProgressEngine::poll(Submission& submission) {
  if (submission.done() || fork_.forked() || lock_.held_by_this_thread()) return submission.done();
  if (!try_progress() && !submission.done() &&
      idle_polls_.fetch_add(1, std::memory_order_relaxed) % kPollsPerCheck == 0)
    // Without waiting for the lock: its owner may wait for a lock that this thread holds, in an allocator.
    if (const std::unique_lock lock(lock_, std::try_to_lock); lock) check_failures_locked();
  return submission.done();
}

Status ProgressEngine::wait(Submission& submission, std::optional<EngineClock::time_point> until, bool launched) {
  const auto over = [&] { return submission.done() || (launched && submission.launched->all()); };
  if (lock_.held_by_this_thread())
    return failure(Code::kInvalidArgument, "{}: wait() inside a callback would wait for itself",
                   submission.operation().title());
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  EngineClock::time_point spinning_since{};  // nothing has moved since; not read from the clock yet
  EngineClock::time_point next_check{};      // of failures; a thread that sleeps does so itself
  std::uint64_t steps_seen = 0;
  bool late = false;
  bool listed = false;
  for (unsigned turn = 1; !over() && !late; ++turn) {
    if (try_progress())
      spinning_since = {};
    else if (!over())
      relax(oversubscribed_);
    if (over() || turn % (oversubscribed_ ? kYieldsPerCheck : kTurnsPerCheck) != 0) continue;
    const auto now = EngineClock::now();
    late = until && now >= *until;
    const std::uint64_t taken = sets_.world().host_group().steps();
    if (spinning_since == EngineClock::time_point{} || taken != steps_seen) spinning_since = now;
    steps_seen = taken;
    if (next_check == EngineClock::time_point{}) next_check = now + stalls_.period();
    if (!late && now >= next_check) next_check = check_failures();  // other ranks' steps may keep it from its sleep
    if (late || now - spinning_since < kSpin) continue;
    sleep_until(submission, over, until, std::exchange(listed, true));
    spinning_since = {};
  }
  if (listed) stalls_.unblock(submission);
  const bool done = over();
  // In this order: a thread that submits meanwhile relies either on a waiter or on the progress thread.
  if (waiters_.fetch_sub(1, std::memory_order_seq_cst) == 1 && has_thread_ && pending().load() != 0)
    wake_progress_thread();
  if (!done) return failure(Code::kTimeout, "{}: not completed yet; it goes on", submission.operation().title());
  return submission.done() ? submission.status() : Status();
}

EngineClock::time_point ProgressEngine::check_failures() {
  const std::lock_guard lock(lock_);
  check_failures_locked();
  return EngineClock::now() + stalls_.period();
}

void ProgressEngine::sleep_until(Submission& submission, const std::function<bool()>& over,
                                 std::optional<EngineClock::time_point> until, bool listed) {
  if (!listed) stalls_.block(submission);
  const auto ready = [&] {
    while (progress()) {
    }
    return over();
  };
  const auto next_check = check_failures();
  sets_.world().host_group().sleep(ready, until ? std::min(*until, next_check) : next_check);
}

// --- failures ---

void ProgressEngine::check_failures_locked() {
  std::vector<ProcessSet*> sets;
  sets_.each([&](ProcessSet& set) {
    set.check_failures();
    sets.push_back(&set);
  });
  stalls_.look(sets);
}

void ProgressEngine::try_check_failures() {
  if (lock_.held_by_this_thread()) return;
  if (const std::unique_lock lock(lock_, std::try_to_lock); lock)
    sets_.each([](ProcessSet& set) { set.check_failures(); });
}

// --- the progress thread ---

void ProgressEngine::start_thread() {
  has_thread_ = true;
  thread_.emplace([this](const std::stop_token& stop) { run_thread(stop); });
}

void ProgressEngine::stop_thread() {
  if (!thread_) return;
  thread_->request_stop();
  wake_progress_thread();
  sets_.world().wake();
  thread_.reset();
}

void ProgressEngine::abandon_thread() {
  if (thread_) new std::optional<std::jthread>(std::move(thread_));
}

void ProgressEngine::wake_progress_thread() noexcept {
  wakes_.fetch_add(1, std::memory_order_seq_cst);
  wakes_.notify_one();
}

// A thread that has just submitted most likely submits more, or waits: progress is better left to it.
void ProgressEngine::nap_through_burst(const std::stop_token& stop) {
  std::uint32_t seen = 0;
  do {
    seen = activity();
    if (urgent_.load(std::memory_order_seq_cst) == 0) futex_wait(urgent_, 0, kNap);
    telemetry_.trace().flush_if_full();
  } while (!stop.stop_requested() && urgent_.exchange(0) == 0 && activity() - seen >= kBurstActivity);
}

void ProgressEngine::progress_until_burst(const std::stop_token& stop) {
  std::uint32_t began = activity();
  const auto needed = [&] {
    return !stop.stop_requested() && waiters() == 0 && pending().load() != 0 && activity() - began < kBurstActivity;
  };
  unsigned busy_turns = 0;
  while (needed()) {
    if (progress() && ++busy_turns % kTurnsPerCheck != 0) continue;
    const auto next_check = check_failures();
    telemetry_.trace().flush_if_full();
    const auto ready = [&] {
      while (needed() && progress()) {
      }
      return !needed();
    };
    const auto slept_from = EngineClock::now();
    sets_.world().host_group().sleep(ready, next_check);
    if (EngineClock::now() - slept_from > kNap) began = activity();  // a few submissions in a long time are no burst
  }
}

void ProgressEngine::run_thread(const std::stop_token& stop) {
  block_signals();
  while (!stop.stop_requested()) {
    const std::uint32_t seen = wakes_.load(std::memory_order_seq_cst);
    if (waiters() != 0 || pending().load() == 0) {
      if (!stop.stop_requested()) wakes_.wait(seen, std::memory_order_seq_cst);
    }
    nap_through_burst(stop);
    progress_until_burst(stop);
  }
}

}  // namespace xoe::engine
