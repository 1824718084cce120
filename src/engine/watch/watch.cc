#include "engine/watch/watch.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "engine/tuning/knobs.h"
#include "xoe/communicator.h"

namespace xoe::engine {
namespace {

constexpr std::size_t kValues = std::size_t{64} << 10;  // 256 KiB of float32: larger than the first-level caches
constexpr int kTries = 4;

// The time of the quickest of several calls of act(), in seconds.
template <class Act>
Result<double> best_of(Act&& act) {
  double best = 1;
  for (int i = 0; i < kTries; ++i) {
    const auto began = std::chrono::steady_clock::now();
    XOE_TRY(act());
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  return std::max(best, 1e-9);
}

// Collective; takes a few hundred microseconds on one host, and the best of several tries: the machine may be shared.
Result<Speeds> measure_speeds(Communicator& comm) {
  constexpr double kBytes = kValues * sizeof(float);
  std::vector<float> values(kValues), copy(kValues);
  float one = 0;
  Speeds speeds;
  XOE_ASSIGN(const double latency,
             best_of([&] { return comm.allreduce(Tensor(&one, 1), ReduceOp::kMax, {.name = "speed"}); }));
  XOE_ASSIGN(const double reduce, best_of([&] {
               return comm.allreduce(Tensor(values.data(), kValues), ReduceOp::kMax, {.name = "speed"});
             }));
  XOE_ASSIGN(const double copied, best_of([&]() -> Status {
               std::memcpy(copy.data(), values.data(), kValues * sizeof(float));
               values[0] = copy[kValues - 1];
               return {};
             }));
  speeds.latency_ns = latency * 1e9;
  speeds.reduce_bytes_per_second = kBytes / std::max(reduce - latency, 1e-7);
  speeds.copy_bytes_per_second = kBytes / copied;
  return speeds;
}

}  // namespace

Watch::Watch(const EngineOptions& options, const Topology& topology, int host, int hosts, ClockOffset clock,
             bootstrap::StatusWriter launcher)
    : options_(options),
      topology_(topology),
      tuned_for_{.ranks = topology.size, .hosts = hosts},
      metrics_(topology.rank, topology.size),
      launcher_(std::move(launcher)),
      stalls_(options, topology.rank, launcher_),
      trace_(topology, host, hosts, clock, options.warn),
      profiler_(Profiler::attach(options.nvtx, Env::process(), options.warn)) {}

Watch::~Watch() = default;

Result<std::unique_ptr<Watch>> Watch::create(const EngineOptions& options, Communicator& world,
                                             bootstrap::StatusWriter launcher) {
  const Topology& topology = world.topology();
  const std::vector<int>& by_rank = world.backend().host_group().hosts();
  const int hosts = *std::max_element(by_rank.begin(), by_rank.end()) + 1;
  ClockOffset clock;
  if (hosts > 1) {
    XOE_ASSIGN(clock, measure_clock(world));
  }
  Speeds speeds;
  if (topology.size > 1) {
    XOE_ASSIGN(speeds, measure_speeds(world));
  }
  std::unique_ptr<Watch> watch(new Watch(options, topology, by_rank[static_cast<std::size_t>(topology.rank)], hosts,
                                         clock, std::move(launcher)));
  const Knobs start = Knobs::nearest(options.fusion_threshold, options.pack_limit, options.in_flight);
  watch->metrics_.knobs(start);
  if (options.tune && topology.rank == 0 && topology.size > 1) {
    std::vector<Tuned> known;
    std::string warning;
    if (!options.tune_file.empty()) known = load_tuned(options.tune_file, watch->tuned_for_, warning);
    if (!warning.empty()) options.warn(warning);
    watch->tuner_.emplace(speeds, start, std::move(known));
  }
  if (options.metrics_port >= 0) {
    const int port = options.metrics_port == 0 ? 0 : options.metrics_port + topology.local_rank;
    XOE_ASSIGN(watch->server_, MetricsServer::start(port, [metrics = &watch->metrics_] { return metrics->text(); }));
  }
  return watch;
}

void Watch::agreed(EngineTrace::Recorder& recorder, Submission& submission, int last, std::chrono::nanoseconds waited) {
  recorder.agreed(submission, last, waited);
  if (profiler_ != nullptr) submission.range.next(ProfiledStage::kQueue, submission.name, submission.bytes());
  if (last != topology_.rank && waited.count() > 0) metrics_.waited_for(last, waited);
}

void Watch::batch_done(const Batch& batch, const Status& status) {
  const std::size_t tensors = batch.tensors();
  metrics_.batch(tensors);
  if (batch.gpu_transport) metrics_.gpu_collective(*batch.gpu_transport);
  trace_.batch_done(batch);
  if (!tuner_ || !status || batch.bytes == 0) return;
  // Time in which batches overlap counts once.
  const auto from = std::max(batch.started, busy_until_);
  busy_until_ = std::max(busy_until_, batch.done);
  ++batches_;
  tuner_->observe(batch.bytes, tensors, std::chrono::duration<double>(busy_until_ - from).count());
}

void Watch::completing(const Submission& submission, const Status& status) {
  if (status)
    metrics_.operation(submission.op.kind, submission.bytes());
  else
    metrics_.error(status.error().code());
  launcher_.operation();
}

void Watch::look(std::span<ProcessSet* const> sets) {
  const auto now = EngineClock::now();
  if (now < last_look_ + stalls_.period()) return;
  last_look_ = now;
  metrics_.stalled(stalls_.look(sets));
}

std::optional<Knobs> Watch::end_step() {
  if (!tuner_ || batches_ == 0) return std::nullopt;
  batches_ = 0;
  const Knobs before = tuner_->current();
  tuner_->end_step();
  if (tuner_->settled() && !std::exchange(saved_, true) && !options_.tune_file.empty())
    if (const Status saved = save_tuned(options_.tune_file, tuned_for_, tuner_->known()); !saved)
      options_.warn(saved.error().message());
  if (!tuner_->settled()) saved_ = false;
  if (tuner_->current() == before) return std::nullopt;
  metrics_.knobs(tuner_->current());
  return tuner_->current();
}

}  // namespace xoe::engine
