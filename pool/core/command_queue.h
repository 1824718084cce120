// Runs commands of many threads against one pool: those that wait together share a turn, and so one flush of the
// device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "pool/core/pool.h"

namespace xoe::pool {

class CommandQueue {
 public:
  using Clock = std::function<Time()>;
  using Jumps = std::function<std::optional<ClockJump>()>;
  using Marks = std::function<std::optional<ClockMark>()>;
  using Work = std::function<void(Pool&)>;

  // jumps: of the clock, each told once. marks: how the clock is set, which the pool keeps for a server that starts
  // later; nullopt: not known.
  CommandQueue(
      Pool pool, Clock clock, Jumps jumps = [] { return std::nullopt; }, Marks marks = [] { return std::nullopt; });
  CommandQueue(const CommandQueue&) = delete;
  CommandQueue& operator=(const CommandQueue&) = delete;
  ~CommandQueue();

  // Runs `command` in a turn and `after` when that is committed; returns then. An error: the turn was undone, and the
  // command may be sent again. Any thread.
  Status change(Work command, Work after);
  // Runs `look` between two turns; it must change nothing that is stored. Any thread.
  void read(Work look);

  // Counts the turns.
  std::uint64_t turn() const;
  // Returns when the count is beyond `seen` or the time is over; false: it is over.
  bool await_turn(std::uint64_t seen, Span timeout);
  // Makes time-driven rules run now: after a test set its clock.
  void wake();

 private:
  struct Entry {
    Work command;  // empty: it only reads
    Work after;
    Status status = {};
    bool done = false;
  };
  void run(Entry& entry);
  void work(const std::stop_token& stop);
  bool note_jump();
  bool run_turn(const std::vector<Entry*>& entries);
  Status try_turn(const std::vector<Entry*>& entries);

  Pool pool_;
  Clock clock_;
  Jumps jumps_;
  Marks marks_;
  std::optional<ClockJump> jump_;  // that no turn has stored yet
  mutable std::mutex mutex_;
  std::condition_variable_any arrived_;
  std::condition_variable done_;
  std::vector<Entry*> waiting_;
  std::uint64_t turn_ = 0;
  bool woken_ = false;
  std::jthread worker_;  // last: it uses all of the above
};

}  // namespace xoe::pool
