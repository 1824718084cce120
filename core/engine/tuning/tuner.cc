#include "core/engine/tuning/tuner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace xoe::engine {
namespace {

constexpr int kStepsToSkipFirst = 2;  // buffers are touched, connections made
constexpr std::size_t kStepsToWatch = 5;
constexpr int kStepsInWindow = 6;
constexpr std::size_t kSpread = 8;  // points of the first stage
constexpr int kMaxStages = 5;
constexpr int kMaxExploredSteps = 10000;  // if the workload keeps changing
constexpr std::size_t kMaxKnown = 8;
constexpr double kTolerance = 1.3;  // of the best prediction
constexpr double kSame = 1e-3;      // predictions that differ by less, as a share

bool within_factor_2(double a, double b) { return a <= 2 * b && b <= 2 * a; }

// The middle value, or the lower one of the two.
double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The fewer candidates are left, the longer each is measured.
int turns_each(std::size_t candidates) {
  if (candidates > 6) return 1;
  return candidates > 2 ? 2 : 4;
}

}  // namespace

bool Workload::like(const Workload& other) const {
  return within_factor_2(bytes, other.bytes) && within_factor_2(tensors, other.tensors);
}

Tuner::Tuner(const Speeds& speeds, const Knobs& start, std::vector<Tuned> known)
    : speeds_(speeds), current_(start), known_(std::move(known)), steps_to_skip_(kStepsToSkipFirst) {
  if (!known_.empty()) current_ = known_.back().knobs;
}

void Tuner::observe(std::size_t bytes, std::size_t tensors, double busy_seconds) {
  step_.bytes += static_cast<double>(bytes);
  step_.tensors += static_cast<double>(tensors);
  if (phase_ == Phase::kLearning) histogram_.add(bytes, tensors);
  step_seconds_ += busy_seconds;
}

void Tuner::end_step() {
  const Workload step = std::exchange(step_, {});
  const double seconds = std::exchange(step_seconds_, 0.0);
  if (step.bytes == 0 || !(seconds >= 0)) return;
  if (phase_ == Phase::kLearning) return learn(step);
  if (changed(step) || !step.like(workload_)) return;
  if (phase_ == Phase::kExploring) explore(seconds / step.bytes);
}

void Tuner::learn(const Workload& step) {
  if (steps_to_skip_ > 0) {
    --steps_to_skip_;
    histogram_.clear();
    return;
  }
  watched_.push_back(step);
  if (watched_.size() < kStepsToWatch) return;
  std::vector<double> bytes;
  std::vector<double> tensors;
  for (const Workload& watched : watched_) {
    bytes.push_back(watched.bytes);
    tensors.push_back(watched.tensors);
  }
  workload_ = {median(std::move(bytes)), median(std::move(tensors))};
  begin();
}

// Whether the workload has changed for so long that tuning starts again.
bool Tuner::changed(const Workload& step) {
  other_steps_ = step.like(workload_) ? 0 : other_steps_ + 1;
  if (other_steps_ < kPatience) return false;
  phase_ = Phase::kLearning;
  histogram_.clear();
  watched_.clear();
  other_steps_ = 0;
  steps_to_skip_ = 0;
  return true;
}

void Tuner::begin() {
  windows_ = 0;
  explored_steps_ = 0;
  for (const Tuned& known : known_)
    if (known.workload.like(workload_)) return finish(known.knobs);
  best_predicted_ = std::numeric_limits<double>::infinity();
  for (const Knobs& knobs : Knobs::grid())
    best_predicted_ = std::min(best_predicted_, predicted_seconds(knobs, histogram_, speeds_));
  phase_ = Phase::kExploring;
  stage_ = 0;
  try_spread();
}

bool Tuner::allowed(const Knobs& knobs) const {
  return predicted_seconds(knobs, histogram_, speeds_) <= kTolerance * best_predicted_;
}

// The model's best point and the current one, then always the point farthest from all chosen ones.
void Tuner::try_spread() {
  std::vector<Knobs> places;
  Knobs favourite = current_;
  for (const Knobs& knobs : Knobs::grid()) {
    if (!allowed(knobs)) continue;
    places.push_back(knobs);
    if (predicted_seconds(knobs, histogram_, speeds_) == best_predicted_) favourite = knobs;
  }
  candidates_ = {{favourite, {}}};
  if (current_ != favourite && allowed(current_)) candidates_.push_back({current_, {}});
  while (candidates_.size() < kSpread) {
    int farthest = 0;
    Knobs next;
    for (const Knobs& place : places) {
      int nearest = std::numeric_limits<int>::max();
      for (const Candidate& chosen : candidates_) nearest = std::min(nearest, distance(place, chosen.knobs));
      if (nearest > farthest) {
        farthest = nearest;
        next = place;
      }
    }
    if (farthest == 0) break;
    candidates_.push_back({next, {}});
  }
  start_candidates();
}

// On each axis, and along both sizes, the first, second and fourth point in both directions that the model
// distinguishes from the one before: two limits are the same if no tensor's size lies between them.
void Tuner::try_around(Knobs center) {
  candidates_ = {{center, {}}};
  const auto add = [this](const Knobs& knobs) {
    const bool there = std::ranges::any_of(candidates_, [&](const Candidate& c) { return c.knobs == knobs; });
    if (!there && knobs.on_grid() && allowed(knobs)) candidates_.push_back({knobs, {}});
  };
  const auto walk = [&](auto&& next) {
    double before = predicted_seconds(center, histogram_, speeds_);
    int found = 0;
    for (Knobs knobs = next(center); found < 4 && knobs.on_grid(); knobs = next(knobs)) {
      const double here = predicted_seconds(knobs, histogram_, speeds_);
      if (std::abs(here - before) <= kSame * before) continue;
      before = here;
      if (++found != 3) add(knobs);
    }
  };
  if (center.fusion_threshold == 0) {
    add(Knobs::nearest(1, 1 << 20, center.in_flight));
  } else {
    walk([](const Knobs& k) { return Knobs{k.fusion_threshold << 1, k.pack_limit, k.in_flight}; });
    // The limit may not exceed the threshold.
    walk([](const Knobs& k) {
      const std::size_t smaller = k.fusion_threshold >> 1;
      return Knobs{smaller, std::min(k.pack_limit, smaller), k.in_flight};
    });
    walk([](const Knobs& k) { return Knobs{k.fusion_threshold << 1, k.pack_limit << 1, k.in_flight}; });
    walk([](const Knobs& k) { return Knobs{k.fusion_threshold, k.pack_limit << 1, k.in_flight}; });
    walk([](const Knobs& k) { return Knobs{k.fusion_threshold, k.pack_limit >> 1, k.in_flight}; });
  }
  for (const int in_flight : {1, 2, 4, 8}) add({center.fusion_threshold, center.pack_limit, in_flight});
  start_candidates();
}

void Tuner::start_candidates() {
  center_ = candidates_.front().knobs;
  if (candidates_.size() == 1) return end_stage(center_);
  turns_ = 0;
  visit(0);
}

void Tuner::visit(std::size_t candidate) {
  current_ = candidates_[candidate].knobs;
  steps_in_window_ = 0;
  steps_to_skip_ = 1;  // batches of the previous setting complete in it
}

void Tuner::explore(double cost) {
  if (++explored_steps_ > kMaxExploredSteps) return finish(center_);
  if (steps_to_skip_ > 0) {
    --steps_to_skip_;
    return;
  }
  candidates_[static_cast<std::size_t>(turns_) % candidates_.size()].costs.push_back(cost);
  if (++steps_in_window_ == kStepsInWindow) next_window();
}

void Tuner::next_window() {
  ++windows_;
  ++turns_;
  const auto count = candidates_.size();
  if (static_cast<std::size_t>(turns_) == count * static_cast<std::size_t>(turns_each(count))) return end_round();
  visit(static_cast<std::size_t>(turns_) % count);
}

void Tuner::end_round() {
  std::ranges::stable_sort(candidates_, {}, [](const Candidate& c) { return median(c.costs); });
  candidates_.resize((candidates_.size() + 1) / 2);
  if (candidates_.size() == 1) return end_stage(candidates_.front().knobs);
  turns_ = 0;
  visit(0);
}

void Tuner::end_stage(Knobs winner) {
  const bool better = stage_ == 0 || winner != center_;
  if (!better || ++stage_ == kMaxStages) return finish(winner);
  try_around(winner);
}

void Tuner::finish(Knobs knobs) {
  current_ = knobs;
  phase_ = Phase::kConverged;
  candidates_.clear();
  std::erase_if(known_, [this](const Tuned& known) { return known.workload.like(workload_); });
  known_.push_back({workload_, knobs});
  if (known_.size() > kMaxKnown) known_.erase(known_.begin());
}

}  // namespace xoe::engine
