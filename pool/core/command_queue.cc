#include "pool/core/command_queue.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace xoe::pool {
namespace {

// A clock that is set forward shows after this time at the latest.
constexpr Span kLongestSleep = std::chrono::seconds(5);
// Before a turn that failed without a command is tried again: the disk may be full for long.
constexpr Span kPauseAfterFailure = std::chrono::seconds(1);

}  // namespace

CommandQueue::CommandQueue(Pool pool, Clock clock, Jumps jumps, Marks marks)
    : pool_(std::move(pool)),
      clock_(std::move(clock)),
      jumps_(std::move(jumps)),
      marks_(std::move(marks)),
      worker_([this](const std::stop_token& stop) { work(stop); }) {}

CommandQueue::~CommandQueue() {
  worker_.request_stop();
  worker_.join();
}

Status CommandQueue::change(Work command, Work after) {
  Entry entry{.command = std::move(command), .after = std::move(after)};
  run(entry);
  return std::move(entry.status);
}

void CommandQueue::read(Work look) {
  Entry entry{.command = {}, .after = std::move(look)};
  run(entry);
}

void CommandQueue::run(Entry& entry) {
  std::unique_lock lock(mutex_);
  waiting_.push_back(&entry);
  arrived_.notify_one();
  done_.wait(lock, [&] { return entry.done; });
}

std::uint64_t CommandQueue::turn() const {
  const std::lock_guard lock(mutex_);
  return turn_;
}

bool CommandQueue::await_turn(std::uint64_t seen, Span timeout) {
  std::unique_lock lock(mutex_);
  return done_.wait_for(lock, timeout, [&] { return turn_ > seen; });
}

void CommandQueue::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  arrived_.notify_one();
}

void CommandQueue::work(const std::stop_token& stop) {
  bool overdue = true;  // what passed while no server ran
  bool failed = false;
  for (;;) {
    std::vector<Entry*> entries;
    {
      std::unique_lock lock(mutex_);
      Span sleep = kLongestSleep;
      if (const auto next = pool_.next_event())
        sleep = std::clamp(*next - clock_(), failed ? kPauseAfterFailure : Span(0), kLongestSleep);
      if (!overdue) arrived_.wait_for(lock, stop, sleep, [&] { return !waiting_.empty() || woken_; });
      if (stop.stop_requested() && waiting_.empty()) return;
      entries = std::exchange(waiting_, {});
      woken_ = false;
    }
    const auto next = pool_.next_event();
    const bool changes = std::ranges::any_of(entries, [](const Entry* entry) { return bool(entry->command); });
    const bool paused = failed && !entries.empty();  // only reads came
    const Time now = clock_();
    const bool turns = changes || overdue || (!paused && ((next && *next <= now) || note_jump()));
    overdue = false;
    if (turns) failed = !run_turn(entries);
    for (Entry* const entry : entries)
      if (entry->status && entry->after) entry->after(pool_);
    const std::lock_guard lock(mutex_);
    for (Entry* const entry : entries) entry->done = true;
    if (turns) ++turn_;
    done_.notify_all();
  }
}

// Whether one is to be stored.
bool CommandQueue::note_jump() {
  if (const auto jump = jumps_()) {
    // One that was accepted, and not stored, must not be lost.
    const bool kept = jump_ && jump_->accepted;
    if (kept && jump->accepted) jump_->by += jump->by;
    if (!kept) jump_ = jump;
  }
  return jump_.has_value();
}

bool CommandQueue::run_turn(const std::vector<Entry*>& entries) {
  const Status done = try_turn(entries);
  if (done) return true;
  const Status undone = pool_.abandon();
  for (Entry* const entry : entries)
    if (entry->command) entry->status = failure(undone ? done.error() : undone.error());
  return false;
}

Status CommandQueue::try_turn(const std::vector<Entry*>& entries) {
  const Time now = clock_();
  note_jump();
  XOE_TRY(pool_.begin(now, jump_));
  if (const auto mark = marks_()) XOE_TRY(pool_.keep(*mark));
  for (Entry* const entry : entries) {
    if (entry->command) entry->command(pool_);
    if (pool_.database_failure()) return failure(*pool_.database_failure());
  }
  XOE_TRY(pool_.finish());
  jump_.reset();
  return {};
}

}  // namespace xoe::pool
