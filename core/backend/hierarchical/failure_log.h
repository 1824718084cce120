// The failures and departures that every rank of the job must learn of at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
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
  std::uint32_t members = 0;  // kRankLeft: the group's ranks
  std::uint32_t code = 0;     // Code
  std::uint32_t foreign = 0;  // 1: from another host
  char text[512] = {};

  void set_cause(Code cause, std::string_view message) noexcept;
  Error cause() const;
};

// Two events with the same key are about the same failure.
using FailureKey = std::tuple<FailureEvent::Kind, std::int32_t, std::uint64_t>;
inline FailureKey key_of(const FailureEvent& event) { return {event.kind, event.rank, event.group}; }

// The events of a host that its ranks have not all read yet: a ring in memory that they share, zero at first. Each rank
// has a FailureLog of its own on it. An event that finds no room waits in its rank's FailureLog until flush().
//
// Invariants: an event's number is taken once, from `taken`, while its place in the ring is read: all readers that are
// not gone have read what was there before. Its entry is written by the rank that took the number alone, before
// `ready` is the number + 1. A reader copies it before it counts it as read. `word` changes after each event, each
// reading of a full ring, and in wake(); a reader loads it before it looks for events or room, so that it cannot sleep
// through either.
class FailureLog {
 public:
  static constexpr std::uint32_t kEvents = 512;
  // Kept for failures: departures are many where groups come and go.
  static constexpr std::uint32_t kForFailures = 64;

  static std::size_t bytes(int readers) noexcept;
  FailureLog(std::byte* memory, int reader, int readers) noexcept;

  // Never blocks. Any thread may call it.
  void append(const FailureEvent& event);
  // Appends what waits for room. True: nothing waits any more.
  bool flush();
  // The next event that this rank has not read. Only one thread may call it.
  bool read(FailureEvent& event) noexcept;
  // For sleep(), which returns once an event, or room, has come since; or after `most`.
  std::uint32_t word() const noexcept;
  void sleep(std::uint32_t word, std::chrono::nanoseconds most = std::chrono::hours(1)) const noexcept;
  void wake() const noexcept;  // all threads that sleep, in all processes
  // A reader of this host reads no more: it has left, or is dead.
  void set_gone(int reader) noexcept;

 private:
  struct Shared;
  struct Entry;
  struct Reader;
  std::uint64_t oldest_unread() const noexcept;
  bool try_append(const FailureEvent& event) noexcept;

  Shared* shared_;
  Reader* all_readers_;
  int reader_;
  int readers_;
  std::mutex mutex_;
  std::deque<FailureEvent> waiting_;
};

// Events that a group's ranks may still have to learn of when they make it. Losses stay for good, one for each rank or
// host; a group's events only until all of its ranks have left it, after which no rank can join it.
class PastEvents {
 public:
  void add(const FailureEvent& event);
  const std::deque<FailureEvent>& events() const noexcept { return events_; }

 private:
  std::deque<FailureEvent> events_;
  std::map<std::uint64_t, std::uint32_t> left_;  // ranks, by group
};

// Reads the log on behalf of one rank, in a thread of its own.
class FailureListener {
 public:
  using Callback = std::function<void(const FailureEvent&)>;

  // log outlives this. forward: called for each event before any callback; the host's leader passes it on to the other
  // hosts. May be null.
  FailureListener(FailureLog& log, Callback forward);
  ~FailureListener();

  void append(const FailureEvent& event) { log_.append(event); }
  // Calls `callback` for every event, past ones included, from the listener's thread or before this returns. The number
  // is for unsubscribe(), after which no call is in progress, unless it is itself called from one.
  int subscribe(Callback callback);
  void unsubscribe(int number);

 private:
  void run();
  void deliver(const FailureEvent& event);

  FailureLog& log_;
  Callback forward_;
  std::recursive_mutex mutex_;
  PastEvents past_;
  std::map<int, Callback> callbacks_;
  int next_ = 0;
  std::atomic<bool> stopped_ = false;
  std::jthread thread_;
};

}  // namespace xoe::hierarchical
