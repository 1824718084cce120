// Observes the engine: metrics, tuning, stalls, timeline, profiler.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/status_page.h"
#include "engine/process_set.h"
#include "engine/profiler.h"
#include "engine/tuning/tuner.h"
#include "engine/tuning/tuner_file.h"
#include "engine/watch/engine_trace.h"
#include "engine/watch/metrics.h"
#include "engine/watch/metrics_server.h"
#include "engine/watch/stall_watch.h"

namespace xoe::engine {

class Watch {
 public:
  // Collective over `world`. options, with a `warn`, outlive this. launcher: learns how this rank goes on.
  // `unavailable`: the metrics port is taken.
  static Result<std::unique_ptr<Watch>> create(const EngineOptions& options, Communicator& world,
                                               bootstrap::StatusWriter launcher);
  ~Watch();

  Metrics& metrics() noexcept { return metrics_; }
  StallWatch& stalls() noexcept { return stalls_; }
  EngineTrace& trace() noexcept { return trace_; }
  const Profiler* profiler() const noexcept { return profiler_.get(); }  // null: none is attached

  // A training step of this rank has ended. Any thread.
  void note_step() noexcept {
    metrics_.step();
    launcher_.step();
  }

  // Called by the thread that makes progress:
  void agreed(EngineTrace::Recorder& recorder, Submission& submission, int last, std::chrono::nanoseconds waited);
  void batch_done(const Batch& batch, const Status& status);
  void completing(const Submission& submission, const Status& status);
  // At least every stalls().period() while anything is pending. sets: the world first.
  void look(std::span<ProcessSet* const> sets);
  // A step is over: nothing is pending any more. Returns new knobs for all sets, if they have changed.
  std::optional<Knobs> end_step();

 private:
  Watch(const EngineOptions& options, const Topology& topology, int host, int hosts, ClockOffset clock,
        bootstrap::StatusWriter launcher);

  const EngineOptions& options_;
  const Topology topology_;
  const TunedFor tuned_for_;
  Metrics metrics_;
  bootstrap::StatusWriter launcher_;
  StallWatch stalls_;
  EngineTrace trace_;
  const std::unique_ptr<const Profiler> profiler_;
  std::optional<Tuner> tuner_;  // on rank 0 of the world
  bool saved_ = false;
  TimePoint busy_until_{};
  TimePoint last_look_{};
  std::uint64_t batches_ = 0;  // of this step
  std::unique_ptr<MetricsServer> server_;
};

}  // namespace xoe::engine
