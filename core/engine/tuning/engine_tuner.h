// Tunes an engine's knobs while it runs, by the time that its batches take.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/engine/tuning/knobs.h"
#include "core/engine/tuning/tuner.h"
#include "core/engine/tuning/tuner_file.h"
#include "xoe/communicator.h"
#include "xoe/engine.h"
#include "xoe/status.h"

namespace xoe::engine {

// The thread that makes progress calls it. It keeps what it has learned in the options' file.
class EngineTuner {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Collective over `world`. options, with a `warn`, outlive this. Null: this rank does not tune; rank 0 does for all.
  static Result<std::unique_ptr<EngineTuner>> create(const EngineOptions& options, Communicator& world);

  // A batch has completed without an error.
  void observe(std::size_t bytes, std::size_t tensors, TimePoint started, TimePoint done);
  // A step is over: nothing is pending any more. Returns new knobs for all sets, if they have changed.
  std::optional<Knobs> end_step();

 private:
  EngineTuner(const EngineOptions& options, const TunedFor& tuned_for, const Speeds& speeds, std::vector<Tuned> known);

  const EngineOptions& options_;
  const TunedFor tuned_for_;
  Tuner tuner_;
  bool saved_ = false;
  TimePoint busy_until_{};
  std::uint64_t batches_ = 0;  // of this step
};

}  // namespace xoe::engine
