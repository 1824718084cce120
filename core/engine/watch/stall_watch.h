// Detects operations that only some ranks have submitted, and ranks that wait for each other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/bootstrap/status_page.h"
#include "core/engine/process_sets/process_set.h"
#include "core/engine/telemetry/metrics.h"
#include "core/engine/telemetry/telemetry.h"
#include "core/engine/watch/stall.h"

namespace xoe::engine {

class StallWatch {
 public:
  // rank: of the world. options, with a `warn`, outlive this; so does `telemetry`, by which the launcher learns of
  // waits.
  StallWatch(const EngineOptions& options, int rank, Telemetry& telemetry)
      : options_(options), rank_(rank), metrics_(telemetry.metrics()), launcher_(telemetry.launcher()) {}

  // A thread of this rank blocks until `submission` is done. Any thread.
  void block(const Submission& submission);
  void unblock(const Submission& submission);

  // Checks all sets, the world first, once in a period(). The thread that makes progress calls it at least so often
  // while anything is pending.
  void look(std::span<ProcessSet* const> sets);
  std::chrono::nanoseconds period() const;
  // A submission has this timeout: period() suits it from now on. Any thread.
  void expect(std::chrono::nanoseconds timeout);

 private:
  // Gives up on `waiting`, or adds it to `stalled` when a warning is due.
  void check(ProcessSet& set, const ProcessSet::Waiting& waiting, EngineClock::time_point now,
             std::vector<PendingTensor>& stalled);
  std::string limit_line(const std::string& stall, std::chrono::nanoseconds own) const;
  PendingTensor describe(ProcessSet& set, const ProcessSet::Waiting& waiting, EngineClock::time_point now);
  CpuUse used_by_missing(const ProcessSet& set, const std::vector<MissingRank>& missing);
  const std::optional<ProcessActivity>& activity(int rank);
  // Shows the other ranks the operation that a thread of this rank is blocked on.
  void publish(ProcessSet& world, const std::vector<ProcessSet::Waiting>& waiting);
  void look_for_deadlocks(ProcessSet& world);

  const EngineOptions& options_;
  int rank_;
  Metrics& metrics_;
  bootstrap::StatusWriter& launcher_;
  bootstrap::WaitKind outer_wait_ = {};  // around the first of blocked_
  std::atomic<std::int64_t> shortest_timeout_ns_{INT64_MAX};
  EngineClock::time_point last_look_{};
  std::mutex mutex_;
  std::vector<const Submission*> blocked_;
  const HostGroup* world_ = nullptr;
  std::map<int, std::optional<ProcessActivity>> activities_;  // of ranks that others wait for, in this look
  RankStatus* status_ = nullptr;                              // where other ranks read what this rank waits for
  DeadlockWatch deadlocks_;
};

}  // namespace xoe::engine
