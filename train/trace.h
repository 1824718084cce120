// Measures where the time of a step goes, for reports and the timeline.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/status_page.h"
#include "trace/timeline.h"
#include "train/speed.h"
#include "xoe/torch/optimizer.h"

namespace xoe::train {

using Clock = trace::TimelineClock;

inline double seconds_of(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

enum class Phase : std::uint8_t { kForward, kBackward, kOptimizer, kInput, kPeers, kCheckpoint, kEvaluation };

// Follows the optimizer as its observer, and the training loop through span(). One thread at a time.
class StepTrace : public xoe::torch::StepObserver {
 public:
  // `timeline` may be null; not owned. launcher: learns of steps and waits.
  StepTrace(trace::Timeline* timeline, bootstrap::StatusWriter launcher);
  Status name_lanes();
  // REQUIRES: the optimizer exists, before its first step.
  Status name_buckets(const xoe::torch::DistributedOptimizer& optimizer);

  // Measures `phase` from construction to destruction.
  class Span {
   public:
    Span(StepTrace& trace, Phase phase)
        : trace_(trace), phase_(phase), start_(Clock::now()), outer_(trace.launcher_.begin(wait_of(phase))) {
      trace_.waited_in_span_ = {};
    }
    ~Span() {
      trace_.launcher_.end(outer_);
      trace_.finish(phase_, start_, Clock::now());
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    StepTrace& trace_;
    Phase phase_;
    Clock::time_point start_;
    bootstrap::WaitKind outer_;
  };
  Span span(Phase phase) { return {*this, phase}; }

  // A step has ended.
  void stepped() noexcept { launcher_.step(); }
  // The times of the steps since the last take().
  StepTimes take();

  void bucket_start(const xoe::torch::BucketInfo& bucket) override;
  void bucket_stop(const xoe::torch::BucketInfo& bucket) override;
  void wait_start() override;
  void wait_stop() override;

 private:
  static bootstrap::WaitKind wait_of(Phase phase) noexcept;
  void finish(Phase phase, Clock::time_point start, Clock::time_point stop);

  trace::Timeline* timeline_;
  bootstrap::StatusWriter launcher_;
  bootstrap::WaitKind outer_wait_ = {};  // around the optimizer's
  std::vector<std::uint32_t> phase_names_;
  std::vector<std::uint32_t> bucket_names_;
  std::vector<Clock::time_point> bucket_starts_;
  Clock::time_point wait_start_;
  Clock::duration waited_in_span_{};  // counts as waiting for peers, not as the phase around it
  StepTimes times_;
};

}  // namespace xoe::train
