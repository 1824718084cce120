// The failures and departures that every rank of the job must learn of at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "xoe/status.h"

namespace xoe::hierarchical {

// Plain bytes, for shared memory and messages between hosts.
struct FailureEvent {
  enum class Kind : std::uint32_t { kRankLost, kHostLost, kGroupFailed, kRankLeft };
  Kind kind = Kind::kRankLost;
  std::int32_t rank = 0;      // in the job: the rank that is lost, failed or left; kHostLost: the host
  std::uint64_t group = 0;    // kGroupFailed, kRankLeft: the group's number in the job
  std::uint64_t done = 0;     // kRankLeft: the collectives that the rank has completed in the group
  std::uint32_t code = 0;     // Code
  std::uint32_t foreign = 0;  // 1: from another host
  char text[512] = {};

  void set_cause(Code cause, std::string_view message) noexcept;
  Error cause() const;
};

// Two events with the same key are about the same failure.
using FailureKey = std::tuple<FailureEvent::Kind, std::int32_t, std::uint64_t>;
inline FailureKey key_of(const FailureEvent& event) { return {event.kind, event.rank, event.group}; }

// The events of a host, in memory that its ranks share, zero at first. Ranks that wait sleep in the kernel.
//
// Invariants: an event's number is taken once, from `taken`. Its entry is written by the rank that took the number
// alone, before `ready`, and never changes afterwards: a reader that sees `ready` with acquire may read it. `word`
// changes after each event and in wake(); a reader loads it before it looks for the event, so that it cannot sleep
// through one.
class FailureLog {
 public:
  static std::size_t bytes() noexcept;
  explicit FailureLog(std::byte* memory) noexcept;

  // Never blocks. Drops events beyond some hundred.
  void append(const FailureEvent& event) noexcept;
  // Waits for event number `n`, counted from 0; false after `stopped` was set and wake() called.
  bool wait(std::uint32_t n, FailureEvent& event, const std::atomic<bool>& stopped) const noexcept;
  void wake() const noexcept;  // all threads that wait, in all processes

 private:
  struct Shared;
  Shared* shared_;
};

// Reads the log on behalf of one rank, in a thread of its own.
class FailureListener {
 public:
  using Callback = std::function<void(const FailureEvent&)>;

  // forward: called for each event before any callback; the host's leader passes it on to the other hosts. May be null.
  FailureListener(FailureLog log, Callback forward);
  ~FailureListener();

  void append(const FailureEvent& event) noexcept { log_.append(event); }
  // Calls `callback` for every event, past ones included, from the listener's thread or before this returns. The number
  // is for unsubscribe(), after which no call is in progress, unless it is itself called from one.
  int subscribe(Callback callback);
  void unsubscribe(int number);

 private:
  void run();

  FailureLog log_;
  Callback forward_;
  std::recursive_mutex mutex_;
  std::vector<FailureEvent> past_;
  std::map<int, Callback> callbacks_;
  int next_ = 0;
  std::atomic<bool> stopped_ = false;
  std::jthread thread_;
};

}  // namespace xoe::hierarchical
