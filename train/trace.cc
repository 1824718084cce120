#include "train/trace.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace xoe::train {
namespace {

constexpr int kComputeLane = 1;
constexpr int kInputLane = 2;
constexpr int kPeersLane = 3;
constexpr int kServiceLane = 4;
constexpr int kFirstBucketLane = 10;

struct PhaseStyle {
  std::string_view name;
  int lane;
};
// By Phase.
constexpr std::array<PhaseStyle, 7> kStyles = {{{"forward", kComputeLane},
                                                {"backward", kComputeLane},
                                                {"optimizer", kComputeLane},
                                                {"input wait", kInputLane},
                                                {"wait for peers", kPeersLane},
                                                {"checkpoint", kServiceLane},
                                                {"evaluation", kServiceLane}}};

}  // namespace

StepTrace::StepTrace(trace::Timeline* timeline, bootstrap::StatusWriter launcher)
    : timeline_(timeline), launcher_(std::move(launcher)) {
  if (timeline_ == nullptr) return;
  for (const PhaseStyle& style : kStyles) phase_names_.push_back(timeline_->intern(style.name));
}

Status StepTrace::name_lanes() {
  if (timeline_ == nullptr) return {};
  XOE_TRY(timeline_->name_lane(kComputeLane, "compute"));
  XOE_TRY(timeline_->name_lane(kInputLane, "input wait"));
  XOE_TRY(timeline_->name_lane(kPeersLane, "wait for peers"));
  return timeline_->name_lane(kServiceLane, "checkpoint, evaluation");
}

Status StepTrace::name_buckets(const xoe::torch::DistributedOptimizer& optimizer) {
  const int count = optimizer.bucket_count();
  bucket_starts_.resize(static_cast<std::size_t>(count));
  if (timeline_ == nullptr) return {};
  for (int i = 0; i < count; ++i) {
    const auto bucket = optimizer.bucket(i);
    bucket_names_.push_back(timeline_->intern(fmt::format("allreduce {}", bucket.name)));
    XOE_TRY(timeline_->name_lane(kFirstBucketLane + i,
                                 fmt::format("allreduce bucket {} ({})", i, human_bytes(bucket.bytes))));
  }
  return {};
}

StepTimes StepTrace::take() { return std::exchange(times_, {}); }

void StepTrace::bucket_start(const xoe::torch::BucketInfo& bucket) {
  if (timeline_ != nullptr) bucket_starts_.at(static_cast<std::size_t>(bucket.index)) = Clock::now();
}

void StepTrace::bucket_stop(const xoe::torch::BucketInfo& bucket) {
  if (timeline_ == nullptr) return;
  const auto index = static_cast<std::size_t>(bucket.index);
  timeline_->record(kFirstBucketLane + bucket.index, bucket_names_[index], bucket_starts_[index], Clock::now());
}

bootstrap::WaitKind StepTrace::wait_of(Phase phase) noexcept {
  switch (phase) {
    case Phase::kInput: return bootstrap::WaitKind::kData;
    case Phase::kPeers: return bootstrap::WaitKind::kPeers;
    default: return bootstrap::WaitKind::kNone;
  }
}

void StepTrace::wait_start() {
  outer_wait_ = launcher_.begin(bootstrap::WaitKind::kPeers);
  wait_start_ = Clock::now();
}

void StepTrace::wait_stop() {
  launcher_.end(outer_wait_);
  const auto stop = Clock::now();
  waited_in_span_ += stop - wait_start_;
  if (timeline_ != nullptr) {
    const auto phase = static_cast<std::size_t>(Phase::kPeers);
    timeline_->record(kPeersLane, phase_names_[phase], wait_start_, stop);
  }
}

void StepTrace::finish(Phase phase, Clock::time_point start, Clock::time_point stop) {
  const double inside = seconds_of(std::exchange(waited_in_span_, {}));
  const double own = seconds_of(stop - start) - inside;
  times_.peers += inside;
  switch (phase) {
    case Phase::kForward:
    case Phase::kBackward: times_.compute += own; break;
    case Phase::kOptimizer: times_.optimizer += own; break;
    case Phase::kInput: times_.data += own; break;
    case Phase::kPeers: times_.peers += own; break;
    case Phase::kCheckpoint:
    case Phase::kEvaluation: break;  // no part of a step
  }
  // Where the optimizer waited, wait_stop() has drawn the bars of the peers' lane.
  if (timeline_ != nullptr && !(phase == Phase::kPeers && inside > 0)) {
    const auto index = static_cast<std::size_t>(phase);
    timeline_->record(kStyles[index].lane, phase_names_[index], start, stop);
  }
}

}  // namespace xoe::train
