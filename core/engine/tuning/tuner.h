// Tunes the engine's knobs while training runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/engine/tuning/knobs.h"

namespace xoe::engine {

// The load of one training step.
struct Workload {
  double bytes = 0;    // per step
  double tensors = 0;  // per step

  // Neither differs by more than a factor of 2.
  bool like(const Workload& other) const;
};

// The best knobs that were found for a workload.
struct Tuned {
  Workload workload;
  Knobs knobs;
};

// Watches a few steps, ranks the grid by predicted_seconds(), and tries a few points spread over all that are
// within 1.3x of the best prediction, then the neighbours of the winner. Candidates take turns, a window of steps each;
// each round drops the worse half by median cost (Jamieson and Talwalkar, "Non-stochastic best arm identification",
// 2016). After at most kMaxWindows windows the winner stays, until kPatience consecutive steps differ by more than a
// factor of 2. A workload that comes back gets its winner at once.
//
// Deterministic: it reads no clock and draws no random numbers. One rank runs it, the others receive
// current().encode(). One thread at a time.
class Tuner {
 public:
  static constexpr int kMaxWindows = 240;
  static constexpr int kPatience = 200;

  // known: results of earlier runs, from load_tuned(). REQUIRES: start and known are on the grid.
  Tuner(const Speeds& speeds, const Knobs& start, std::vector<Tuned> known = {});

  // A completed batch: the bytes and number of its tensors, taken to be of equal size, and the seconds for which it
  // kept the wire busy. Time in which batches overlap counts once. REQUIRES: tensors > 0.
  void observe(std::size_t bytes, std::size_t tensors, double busy_seconds);
  // A training step is over: all submitted operations have completed. Only this call may change current().
  void end_step();

  Knobs current() const { return current_; }
  bool converged() const { return phase_ == Phase::kConverged; }
  // Windows of the current, or last, exploration.
  int windows() const { return windows_; }
  // All results, the latest last; to be saved when converged() turns true.
  const std::vector<Tuned>& known() const { return known_; }

 private:
  enum class Phase { kLearning, kExploring, kConverged };
  struct Candidate {
    Knobs knobs;
    std::vector<double> costs;  // seconds per byte, of each step
  };

  void learn(const Workload& step);
  void explore(double cost);
  bool changed(const Workload& step);
  void begin();
  bool allowed(const Knobs& knobs) const;
  void try_spread();
  // By value: the arguments are parts of the objects that they replace.
  void try_around(Knobs center);
  void start_candidates();
  void next_window();
  void visit(std::size_t candidate);
  void end_round();
  void end_stage(Knobs winner);
  void finish(Knobs knobs);

  const Speeds speeds_;
  Knobs current_;
  std::vector<Tuned> known_;

  Phase phase_ = Phase::kLearning;
  SizeHistogram histogram_;  // of the steps that were watched
  std::vector<Workload> watched_;
  Workload workload_;    // the one that is tuned
  int other_steps_ = 0;  // consecutive steps that look like another workload
  double best_predicted_ = 0;

  Workload step_;  // the current one
  double step_seconds_ = 0;

  std::vector<Candidate> candidates_;
  Knobs center_;
  int stage_ = 0;  // 0: spread, later: around the winner
  int turns_ = 0;  // windows of this round so far
  int steps_in_window_ = 0;
  int steps_to_skip_ = 0;
  int explored_steps_ = 0;
  int windows_ = 0;
};

}  // namespace xoe::engine
