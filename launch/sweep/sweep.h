// Runs the trials of `xoe sweep`, each as a job of `xoe run`, as many at once as this machine has GPUs or cores for.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/env.h"
#include "launch/sweep/space.h"
#include "launch/sweep/trial_records.h"
#include "xoe/status.h"

namespace xoe::launch {

struct SweepPlan {
  std::string xoe = {};                   // the program
  std::string folder = {};                // of the sweep
  std::vector<std::string> command = {};  // with {NAME} in it
  std::vector<Trial> trials = {};
  std::string metric = {};                           // empty: none
  int ranks = 1;                                     // of each trial
  std::vector<std::vector<std::string>> slots = {};  // a trial at a time on each; its GPUs, or none
  int threads = 0;                                   // OMP_NUM_THREADS of a rank, where it is not set; 0: as it is
  std::optional<std::chrono::seconds> timeout = {};  // of each trial
  bool stop_at_failure = false;
};

// How many trials run at once, and on which GPUs. jobs: 0: as many as there are GPUs, or cores, for. devices: of this
// machine, as CUDA_VISIBLE_DEVICES has them. `invalid_argument`: a trial does not fit.
Result<std::vector<std::vector<std::string>>> slots_for(int jobs, int ranks, const std::vector<std::string>& devices,
                                                        int cores);

struct SweepEnd {
  std::vector<std::optional<TrialRecord>> records = {};  // by trial; of those that have run, now or before
  int signal = 0;                                        // that ended it
};

// Trials that `records` has as done are not run again. tell: a line about what happens.
Result<SweepEnd> run_sweep(const SweepPlan& plan, TrialRecords& records, const Env& env,
                           const std::function<void(const std::string&)>& tell);

}  // namespace xoe::launch
