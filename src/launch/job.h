// Runs a planned job to its end.
#pragma once

#include "launch/options.h"
#include "launch/plan.h"
#include "launch/report.h"
#include "xoe/status.h"

namespace xoe::launch {

// Starts the ranks, serves their store, carries their output to `out` and `err`, passes signals on, and returns
// when no process of the job is left. The calling process has one thread, and descriptors 0-2 are open.
Result<JobOutcome> run_job(const RunOptions& options, const JobPlan& plan, int out, int err);

}  // namespace xoe::launch
