#include "core/engine/tuning/engine_tuner.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/backend/backend.h"
#include "core/base/error.h"

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

Knobs first_knobs(const EngineOptions& options) {
  return Knobs::nearest(options.fusion_threshold, options.pack_limit, options.in_flight);
}

}  // namespace

EngineTuner::EngineTuner(const EngineOptions& options, const TunedFor& tuned_for, const Speeds& speeds,
                         std::vector<Tuned> known)
    : options_(options), tuned_for_(tuned_for), tuner_(speeds, first_knobs(options), std::move(known)) {}

Result<std::unique_ptr<EngineTuner>> EngineTuner::create(const EngineOptions& options, Communicator& world) {
  if (world.size() == 1) return nullptr;
  XOE_ASSIGN(const Speeds speeds, measure_speeds(world));
  if (!options.tune || world.rank() != 0) return nullptr;
  const std::vector<int>& hosts = world.backend().host_group().hosts();
  const TunedFor tuned_for{.ranks = world.size(), .hosts = std::ranges::max(hosts) + 1};
  std::vector<Tuned> known;
  std::string warning;
  if (!options.tune_file.empty()) known = load_tuned(options.tune_file, tuned_for, warning);
  if (!warning.empty()) options.warn(warning);
  return std::unique_ptr<EngineTuner>(new EngineTuner(options, tuned_for, speeds, std::move(known)));
}

void EngineTuner::observe(std::size_t bytes, std::size_t tensors, TimePoint started, TimePoint done) {
  if (bytes == 0) return;
  // Time in which batches overlap counts once.
  const TimePoint from = std::max(started, busy_until_);
  busy_until_ = std::max(busy_until_, done);
  ++batches_;
  tuner_.observe(bytes, tensors, std::chrono::duration<double>(busy_until_ - from).count());
}

std::optional<Knobs> EngineTuner::end_step() {
  if (batches_ == 0) return std::nullopt;
  batches_ = 0;
  const Knobs before = tuner_.current();
  tuner_.end_step();
  if (tuner_.converged() && !std::exchange(saved_, true) && !options_.tune_file.empty())
    if (const Status saved = save_tuned(options_.tune_file, tuned_for_, tuner_.known()); !saved)
      options_.warn(saved.error().message());
  if (!tuner_.converged()) saved_ = false;
  if (tuner_.current() == before) return std::nullopt;
  return tuner_.current();
}

}  // namespace xoe::engine
