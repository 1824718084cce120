#include "core/backend/hierarchical/failure_log.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "core/base/futex.h"

namespace xoe::hierarchical {
namespace {

constexpr std::chrono::seconds kLastRoom(1);  // for which a rank that leaves waits until others have read

}  // namespace

struct FailureLog::Entry {
  std::atomic<std::uint64_t> ready;  // the event's number + 1
  FailureEvent event;
};

struct FailureLog::Shared {
  std::atomic<std::uint32_t> word;   // a futex
  std::atomic<std::uint32_t> full;   // 1: an event waits for room
  std::atomic<std::uint64_t> taken;  // numbers
  Entry entries[kEvents];
};

struct FailureLog::Reader {
  std::atomic<std::uint64_t> next;  // the event to read
  std::atomic<std::uint32_t> gone;
};

void FailureEvent::set_cause(Code cause, std::string_view message) noexcept {
  code = static_cast<std::uint32_t>(cause);
  message.copy(text, sizeof text - 1);
}

Error FailureEvent::cause() const {
  return Error(static_cast<Code>(code), std::string(text, std::find(text, std::end(text), '\0')));
}

std::size_t FailureLog::bytes(int readers) noexcept {
  static_assert(sizeof(Shared) % alignof(Reader) == 0);
  return sizeof(Shared) + static_cast<std::size_t>(readers) * sizeof(Reader);
}

FailureLog::FailureLog(std::byte* memory, int reader, int readers) noexcept
    : shared_(reinterpret_cast<Shared*>(memory)),
      all_readers_(reinterpret_cast<Reader*>(memory + sizeof(Shared))),
      reader_(reader),
      readers_(readers) {}

std::uint64_t FailureLog::oldest_unread() const noexcept {
  std::uint64_t oldest = shared_->taken.load(std::memory_order_acquire);
  for (int i = 0; i < readers_; ++i)
    if (all_readers_[i].gone.load(std::memory_order_acquire) == 0)
      oldest = std::min(oldest, all_readers_[i].next.load(std::memory_order_seq_cst));
  return oldest;
}

bool FailureLog::try_append(const FailureEvent& event) noexcept {
  const std::uint32_t room = event.kind == FailureEvent::Kind::kRankLeft ? kEvents - kForFailures : kEvents;
  std::uint64_t number = shared_->taken.load(std::memory_order_acquire);
  do {
    if (number >= oldest_unread() + room) return false;
  } while (!shared_->taken.compare_exchange_weak(number, number + 1, std::memory_order_acq_rel));
  Entry& entry = shared_->entries[number % kEvents];
  entry.event = event;
  entry.ready.store(number + 1, std::memory_order_release);
  wake();
  return true;
}

void FailureLog::append(const FailureEvent& event) {
  const std::lock_guard lock(mutex_);
  const bool in_turn = waiting_.empty() || event.kind != FailureEvent::Kind::kRankLeft;
  if (in_turn && try_append(event)) return;
  waiting_.push_back(event);
  wake();  // this rank's listener appends it
}

bool FailureLog::flush() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return true;
  shared_->full.store(1, std::memory_order_seq_cst);
  bool full = false;
  std::erase_if(waiting_, [&](const FailureEvent& event) {
    const bool departure = event.kind == FailureEvent::Kind::kRankLeft;
    if (departure && full) return false;  // departures keep their order
    const bool appended = try_append(event);
    full = full || !appended;
    return appended;
  });
  return waiting_.empty();
}

bool FailureLog::read(FailureEvent& event) noexcept {
  Reader& own = all_readers_[reader_];
  const std::uint64_t number = own.next.load(std::memory_order_relaxed);
  const Entry& entry = shared_->entries[number % kEvents];
  if (entry.ready.load(std::memory_order_acquire) != number + 1) return false;
  event = entry.event;
  own.next.store(number + 1, std::memory_order_seq_cst);
  if (shared_->full.load(std::memory_order_seq_cst) != 0 && shared_->full.exchange(0) != 0) wake();
  return true;
}

std::uint32_t FailureLog::word() const noexcept { return shared_->word.load(std::memory_order_acquire); }

void FailureLog::sleep(std::uint32_t word, std::chrono::nanoseconds most) const noexcept {
  futex_wait(shared_->word, word, most);
}

void FailureLog::wake() const noexcept {
  shared_->word.fetch_add(1, std::memory_order_acq_rel);
  futex_wake_all(shared_->word);
}

void FailureLog::set_gone(int reader) noexcept {
  all_readers_[reader].gone.store(1, std::memory_order_release);
  wake();
}

void PastEvents::add(const FailureEvent& event) {
  events_.push_back(event);
  if (event.kind != FailureEvent::Kind::kRankLeft || ++left_[event.group] < event.members) return;
  left_.erase(event.group);
  std::erase_if(events_, [&](const FailureEvent& past) {
    const bool of_a_group = past.kind == FailureEvent::Kind::kRankLeft || past.kind == FailureEvent::Kind::kGroupFailed;
    return of_a_group && past.group == event.group;
  });
}

FailureListener::FailureListener(FailureLog& log, Callback forward)
    : log_(log), forward_(std::move(forward)), thread_([this] { run(); }) {}

FailureListener::~FailureListener() {
  stopped_.store(true, std::memory_order_release);
  log_.wake();
}

int FailureListener::subscribe(Callback callback) {
  const std::lock_guard lock(mutex_);
  for (const FailureEvent& event : past_.events()) callback(event);
  callbacks_[next_] = std::move(callback);
  return next_++;
}

void FailureListener::unsubscribe(int number) {
  const std::lock_guard lock(mutex_);
  callbacks_.erase(number);
}

void FailureListener::deliver(const FailureEvent& event) {
  if (forward_) forward_(event);
  const std::lock_guard lock(mutex_);
  past_.add(event);
  const auto callbacks = callbacks_;  // a callback may unsubscribe itself
  for (const auto& [number, callback] : callbacks) callback(event);
}

void FailureListener::run() {
  FailureEvent event;
  std::optional<std::chrono::steady_clock::time_point> give_up;
  while (true) {
    const std::uint32_t word = log_.word();
    const bool stops = stopped_.load(std::memory_order_acquire);
    const bool flushed = log_.flush();
    // Before `stops` counts, so that events from before the end still reach the other hosts.
    if (log_.read(event)) {
      deliver(event);
      continue;
    }
    const auto now = std::chrono::steady_clock::now();
    if (stops && !give_up) give_up = now + kLastRoom;
    if (stops && (flushed || now >= *give_up)) return;
    stops ? log_.sleep(word, *give_up - now) : log_.sleep(word);
  }
}

}  // namespace xoe::hierarchical
