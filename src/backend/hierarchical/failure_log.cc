#include "backend/hierarchical/failure_log.h"

#include <algorithm>

#include "base/futex.h"

namespace xoe::hierarchical {
namespace {

constexpr std::uint32_t kEvents = 512;

}  // namespace

struct FailureLog::Shared {
  std::atomic<std::uint32_t> word;   // a futex
  std::atomic<std::uint32_t> taken;  // entries
  struct Entry {
    std::atomic<std::uint32_t> ready;
    FailureEvent event;
  } entries[kEvents];
};

void FailureEvent::set_cause(Code cause, std::string_view message) noexcept {
  code = static_cast<std::uint32_t>(cause);
  message.copy(text, sizeof text - 1);
}

Error FailureEvent::cause() const {
  return Error(static_cast<Code>(code), std::string(text, std::find(text, std::end(text), '\0')));
}

std::size_t FailureLog::bytes() noexcept { return sizeof(Shared); }

FailureLog::FailureLog(std::byte* memory) noexcept : shared_(reinterpret_cast<Shared*>(memory)) {}

void FailureLog::append(const FailureEvent& event) noexcept {
  if (shared_->taken.load(std::memory_order_relaxed) >= kEvents) return;
  const std::uint32_t at = shared_->taken.fetch_add(1, std::memory_order_acq_rel);
  if (at >= kEvents) return;
  shared_->entries[at].event = event;
  shared_->entries[at].ready.store(1, std::memory_order_release);
  wake();
}

bool FailureLog::wait(std::uint32_t n, FailureEvent& event, const std::atomic<bool>& stopped) const noexcept {
  while (true) {
    const std::uint32_t word = shared_->word.load(std::memory_order_acquire);
    const bool stops = stopped.load(std::memory_order_acquire);
    // Before `stops` counts, so that events from before the end still reach the other hosts.
    if (n < kEvents && shared_->entries[n].ready.load(std::memory_order_acquire) != 0) {
      event = shared_->entries[n].event;
      return true;
    }
    if (stops) return false;
    futex_wait(shared_->word, word);
  }
}

void FailureLog::wake() const noexcept {
  shared_->word.fetch_add(1, std::memory_order_acq_rel);
  futex_wake_all(shared_->word);
}

FailureListener::FailureListener(FailureLog log, Callback forward)
    : log_(log), forward_(std::move(forward)), thread_([this] { run(); }) {}

FailureListener::~FailureListener() {
  stopped_.store(true, std::memory_order_release);
  log_.wake();
}

int FailureListener::subscribe(Callback callback) {
  const std::lock_guard lock(mutex_);
  for (const FailureEvent& event : past_) callback(event);
  callbacks_[next_] = std::move(callback);
  return next_++;
}

void FailureListener::unsubscribe(int number) {
  const std::lock_guard lock(mutex_);
  callbacks_.erase(number);
}

void FailureListener::run() {
  FailureEvent event;
  for (std::uint32_t n = 0; log_.wait(n, event, stopped_); ++n) {
    if (forward_) forward_(event);
    const std::lock_guard lock(mutex_);
    past_.push_back(event);
    const auto callbacks = callbacks_;  // a callback may unsubscribe itself
    for (const auto& [number, callback] : callbacks) callback(event);
  }
}

}  // namespace xoe::hierarchical
