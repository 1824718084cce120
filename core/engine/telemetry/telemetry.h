// Records an engine's operations in metrics, a timeline, a profiler's ranges, and the launcher's panel.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "core/bootstrap/status_page.h"
#include "core/engine/execute/batch/batch.h"
#include "core/engine/profiler/profiler.h"
#include "core/engine/submission/submission.h"
#include "core/engine/telemetry/engine_trace.h"
#include "core/engine/telemetry/metrics.h"
#include "core/engine/telemetry/metrics_server.h"
#include "xoe/communicator.h"
#include "xoe/engine.h"
#include "xoe/status.h"

namespace xoe::engine {

class Telemetry {
 public:
  // Collective over `world`. options, with a `warn`, outlive this. launcher: learns how this rank goes on.
  // `unavailable`: the metrics port is taken.
  static Result<std::unique_ptr<Telemetry>> create(const EngineOptions& options, Communicator& world,
                                                   bootstrap::StatusWriter launcher);
  ~Telemetry();

  Metrics& metrics() noexcept { return metrics_; }
  EngineTrace& trace() noexcept { return trace_; }
  const Profiler* profiler() const noexcept { return profiler_.get(); }  // null: none is attached
  bootstrap::StatusWriter& launcher() noexcept { return launcher_; }

  // A training step of this rank has ended. Any thread.
  void note_step() noexcept {
    metrics_.step();
    launcher_.step();
  }

  // Called by the thread that makes progress:
  void agreed(EngineTrace::Recorder& recorder, Submission& submission, int last, std::chrono::nanoseconds waited);
  void batch_done(const Batch& batch);
  void completing(const Submission& submission, const Status& status);

 private:
  Telemetry(const EngineOptions& options, const Topology& topology, int host, int hosts,
            const std::optional<ClockOffset>& clock, bootstrap::StatusWriter launcher);

  const int rank_;
  Metrics metrics_;
  bootstrap::StatusWriter launcher_;
  EngineTrace trace_;
  const std::unique_ptr<const Profiler> profiler_;
  std::unique_ptr<MetricsServer> server_;
};

}  // namespace xoe::engine
