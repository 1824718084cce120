#include "backend/hierarchical/alarm.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

namespace xoe::hierarchical {
namespace {

constexpr std::uint32_t kEvents = 512;

}  // namespace

struct AlarmLog::Shared {
  std::atomic<std::uint32_t> word;   // rung for each event and to wake everybody
  std::atomic<std::uint32_t> taken;  // places
  struct Place {
    std::atomic<std::uint32_t> ready;
    AlarmEvent event;
  } places[kEvents];
};

std::string AlarmEvent::message() const { return {text, std::find(text, std::end(text), '\0')}; }

std::size_t AlarmLog::bytes() noexcept { return sizeof(Shared); }

AlarmLog::AlarmLog(std::byte* memory) noexcept : shared_(reinterpret_cast<Shared*>(memory)) {}

void AlarmLog::tell(const AlarmEvent& event) noexcept {
  if (shared_->taken.load(std::memory_order_relaxed) >= kEvents) return;
  const std::uint32_t at = shared_->taken.fetch_add(1, std::memory_order_acq_rel);
  if (at >= kEvents) return;
  shared_->places[at].event = event;
  shared_->places[at].ready.store(1, std::memory_order_release);
  wake();
}

bool AlarmLog::await(std::uint32_t n, AlarmEvent& event, const std::atomic<bool>& stopped) const noexcept {
  while (true) {
    const std::uint32_t word = shared_->word.load(std::memory_order_acquire);
    const bool stops = stopped.load(std::memory_order_acquire);
    // First, so that what was told before the end still reaches the other hosts.
    if (n < kEvents && shared_->places[n].ready.load(std::memory_order_acquire) != 0) {
      event = shared_->places[n].event;
      return true;
    }
    if (stops) return false;
    ::syscall(SYS_futex, &shared_->word, FUTEX_WAIT, word, nullptr, nullptr, 0);
  }
}

void AlarmLog::wake() const noexcept {
  shared_->word.fetch_add(1, std::memory_order_acq_rel);
  ::syscall(SYS_futex, &shared_->word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

Alarm::Alarm(AlarmLog log, std::function<void(const AlarmEvent&)> forward)
    : log_(log), forward_(std::move(forward)), thread_([this] { run(); }) {}

Alarm::~Alarm() {
  stopped_.store(true, std::memory_order_release);
  log_.wake();
}

int Alarm::listen(std::function<void(const AlarmEvent&)> heard) {
  const std::lock_guard lock(mutex_);
  for (const AlarmEvent& event : past_) heard(event);
  listeners_[next_] = std::move(heard);
  return next_++;
}

void Alarm::forget(int listener) {
  const std::lock_guard lock(mutex_);
  listeners_.erase(listener);
}

void Alarm::run() {
  AlarmEvent event;
  for (std::uint32_t n = 0; log_.await(n, event, stopped_); ++n) {
    if (forward_ && event.foreign == 0) forward_(event);
    const std::lock_guard lock(mutex_);
    past_.push_back(event);
    // A listener may forget itself.
    const auto listeners = listeners_;
    for (const auto& [number, heard] : listeners) heard(event);
  }
}

}  // namespace xoe::hierarchical
