// What failures cost: the table, JSON and page of `xoe bench failures`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "measure/cli/failures/failure_runs.h"

namespace xoe::bench {

struct FailureStudy {
  FailureOptions options;
  std::int64_t checkpoint_every = 0;
  std::string training;          // the flags of `xoe train`
  std::vector<FailureRun> runs;  // of each way first the one in which nothing fails
};

// The share of its time that a way would take where nothing fails. REQUIRES: the study has that run.
double goodput_of(const FailureStudy& study, const FailureRun& run);
// What a failure adds to the time; 0 where none happened.
double seconds_per_failure(const FailureStudy& study, const FailureRun& run);

std::string failures_text(const FailureStudy& study);
nlohmann::ordered_json to_json(const FailureStudy& study);
std::string failures_page(const FailureStudy& study);

}  // namespace xoe::bench
