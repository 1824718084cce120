// Trainings that are killed again and again until they have done their steps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "xoe/status.h"

namespace xoe::bench {

// A way of training on after a failure.
struct FailureWay {
  std::string name;
  std::vector<std::string> words;  // its command; what has ended early is started again, and finds its checkpoints
};

struct FailureOptions {
  int ranks = 2;
  std::int64_t steps = 300;
  std::uint64_t seed = 1;
  double silence = 300;  // seconds without a step after which a run counts as hung
};

struct FailureRun {
  std::string way = {};
  double mean_seconds = 0;  // between failures; 0: nothing was killed
  double seconds = 0;       // from the first step to the last
  int kills = 0;
  int missed = 0;           // of a rank that did not run at that time
  std::int64_t redone = 0;  // steps that were computed again
  int starts = 0;           // of the command
};

// Starts the command, kills as KillSchedule(mean_seconds, ranks, seed) says, and starts it again where it has ended,
// until it has done all steps. `unavailable`: it cannot be started, ends again and again without a step, or is silent.
// stop: becomes readable when it is to end early, with `unavailable`; -1: never. tell: gets a line now and then.
Result<FailureRun> run_under_failures(const FailureWay& way, const FailureOptions& options, double mean_seconds,
                                      int stop = -1, const std::function<void(const std::string& line)>& tell = {});

}  // namespace xoe::bench
