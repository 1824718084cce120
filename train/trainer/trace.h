// Measures where the time of a step goes, for reports and the timeline.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include "core/bootstrap/status_page.h"
#include "train/trainer/speed.h"
#include "xoe/engine.h"
#include "xoe/torch/optimizer.h"

namespace xoe::train {

using Clock = std::chrono::steady_clock;

inline double seconds_of(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

enum class Phase : std::uint8_t { kForward, kBackward, kOptimizer, kInput, kPeers, kCheckpoint, kEvaluation };

// Follows the training loop through span(). The engine's timeline shows the phases; what it shows of waiting for peers
// it knows itself. One thread at a time.
class StepTrace {
 public:
  // launcher: learns of waits for data.
  StepTrace(Engine& engine, const xoe::torch::DistributedOptimizer& optimizer, bootstrap::StatusWriter launcher)
      : engine_(engine), optimizer_(optimizer), launcher_(std::move(launcher)) {}

  // Measures `phase` from construction to destruction. The optimizer's waits count as waiting for peers.
  class Span {
   public:
    Span(StepTrace& trace, Phase phase)
        : trace_(trace),
          phase_(phase),
          start_(Clock::now()),
          waited_(trace.optimizer_.waited()),
          outer_(trace.launcher_.begin(wait_of(phase))) {}
    ~Span() {
      trace_.launcher_.end(outer_);
      trace_.finish(phase_, start_, Clock::now(), trace_.optimizer_.waited() - waited_);
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    StepTrace& trace_;
    Phase phase_;
    Clock::time_point start_;
    Clock::duration waited_;
    bootstrap::WaitKind outer_;
  };
  Span span(Phase phase) { return {*this, phase}; }

  // The times of the steps since the last take().
  StepTimes take() { return std::exchange(times_, {}); }

 private:
  static bootstrap::WaitKind wait_of(Phase phase) noexcept;
  void finish(Phase phase, Clock::time_point start, Clock::time_point stop, Clock::duration waited);

  Engine& engine_;
  const xoe::torch::DistributedOptimizer& optimizer_;
  bootstrap::StatusWriter launcher_;
  StepTimes times_;
};

}  // namespace xoe::train
