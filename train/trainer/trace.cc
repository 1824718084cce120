#include "train/trainer/trace.h"

#include <array>
#include <string_view>

#include "core/trace/names.h"

namespace xoe::train {
namespace {

struct PhaseStyle {
  std::string_view name;
  std::string_view lane;  // empty: the engine shows it
};
constexpr std::string_view kCheckpointLane = "checkpoint, evaluation";
// By Phase.
constexpr std::array<PhaseStyle, 7> kStyles = {{{"forward", trace::kComputeLane},
                                                {"backward", trace::kComputeLane},
                                                {"optimizer", trace::kComputeLane},
                                                {"input wait", trace::kInputLane},
                                                {"wait for peers", ""},
                                                {"checkpoint", kCheckpointLane},
                                                {"evaluation", kCheckpointLane}}};

}  // namespace

bootstrap::WaitKind StepTrace::wait_of(Phase phase) noexcept {
  switch (phase) {
    case Phase::kInput: return bootstrap::WaitKind::kData;
    case Phase::kPeers: return bootstrap::WaitKind::kPeers;
    default: return bootstrap::WaitKind::kNone;
  }
}

void StepTrace::finish(Phase phase, Clock::time_point start, Clock::time_point stop, Clock::duration waited) {
  const double own = seconds_of(stop - start - waited);
  times_.peers += seconds_of(waited);
  switch (phase) {
    case Phase::kForward: times_.forward += own; [[fallthrough]];
    case Phase::kBackward: times_.compute += own; break;
    case Phase::kOptimizer: times_.optimizer += own; break;
    case Phase::kInput: times_.data += own; break;
    case Phase::kPeers: times_.peers += own; break;
    case Phase::kCheckpoint:
    case Phase::kEvaluation: break;  // no part of a step
  }
  const PhaseStyle& style = kStyles[static_cast<std::size_t>(phase)];
  if (!style.lane.empty()) engine_.mark(style.lane, style.name, start, stop);
}

}  // namespace xoe::train
