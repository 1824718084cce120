// Runs a planned job on this host.
#pragma once

#include "launch/options/options.h"
#include "launch/output/job_outcome.h"
#include "launch/plan/job_plan.h"
#include "xoe/status.h"

namespace xoe::launch {

// Starts the ranks on this host, serves their store, carries their output to `out` and `err`, passes signals on, and
// returns when no process of the job is left. The calling process has one thread, and descriptors 0-2 are open.
Result<JobOutcome> run_job(const RunOptions& options, const JobPlan& plan, int out, int err);

}  // namespace xoe::launch
