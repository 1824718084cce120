#include "core/engine/telemetry/telemetry.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/backend/backend.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/engine/tuning/knobs.h"

namespace xoe::engine {

Telemetry::Telemetry(const EngineOptions& options, const Topology& topology, int host, int hosts,
                     const std::optional<ClockOffset>& clock, bootstrap::StatusWriter launcher)
    : rank_(topology.rank),
      metrics_(topology.rank, topology.size),
      launcher_(std::move(launcher)),
      trace_(topology, host, hosts, clock, options.warn),
      profiler_(Profiler::attach(options.nvtx, Env::process(), options.warn)) {}

Telemetry::~Telemetry() = default;

Result<std::unique_ptr<Telemetry>> Telemetry::create(const EngineOptions& options, Communicator& world,
                                                     bootstrap::StatusWriter launcher) {
  const Topology& topology = world.topology();
  const std::vector<int>& by_rank = world.backend().host_group().hosts();
  const int hosts = std::ranges::max(by_rank) + 1;
  auto& history = WorldHistory::of_process();
  auto clock = history.earlier_clock();
  if (hosts > 1) {
    XOE_ASSIGN(clock, measure_clock(world, by_rank, clock));
  } else if (history.version() == 0) {
    clock = ClockOffset();
  }
  if (clock) history.note_clock(*clock);
  std::unique_ptr<Telemetry> telemetry(new Telemetry(
      options, topology, by_rank[static_cast<std::size_t>(topology.rank)], hosts, clock, std::move(launcher)));
  telemetry->trace_.came_about(WorldHistory::of_process().take_mark());
  telemetry->metrics_.knobs(Knobs::nearest(options.fusion_threshold, options.pack_limit, options.in_flight));
  if (options.metrics_port >= 0) {
    const int port = options.metrics_port == 0 ? 0 : options.metrics_port + topology.local_rank;
    XOE_ASSIGN(telemetry->server_,
               MetricsServer::start(port, [metrics = &telemetry->metrics_] { return metrics->text(); }));
  }
  return telemetry;
}

void Telemetry::agreed(EngineTrace::Recorder& recorder, Submission& submission, int last,
                       std::chrono::nanoseconds waited) {
  recorder.agreed(submission, last, waited);
  if (profiler_ != nullptr)
    submission.progress.range.next(ProfiledStage::kQueue, submission.operation().name, submission.operation().bytes());
  if (last != rank_ && waited.count() > 0) metrics_.waited_for(last, waited);
}

void Telemetry::batch_done(const Batch& batch) {
  metrics_.batch(batch.tensors());
  if (batch.gpu_transport) metrics_.gpu_collective(*batch.gpu_transport);
  trace_.batch_done(batch);
}

void Telemetry::completing(const Submission& submission, const Status& status) {
  if (status)
    metrics_.operation(submission.operation().op.kind, submission.operation().bytes());
  else
    metrics_.error(status.error().code());
  launcher_.operation();
}

}  // namespace xoe::engine
