// Runs a planned job to its end.
#pragma once

#include <memory>

#include "core/bootstrap/store_service.h"
#include "launch/options/options.h"
#include "launch/output/job_outcome.h"
#include "launch/output/output.h"
#include "launch/plan/job_plan.h"
#include "launch/supervise/job_processes.h"
#include "launch/supervise/signal_source.h"
#include "xoe/status.h"

namespace xoe::launch {

// Starts the ranks on this host, serves their store, carries their output to `out` and `err`, passes signals on, and
// returns when no process of the job is left. The calling process has one thread, and descriptors 0-2 are open.
Result<JobOutcome> run_job(const RunOptions& options, const JobPlan& plan, int out, int err);

// Supervises ranks that were started already.
JobOutcome supervise_job(const RunOptions& options, SignalSource signals,
                         std::unique_ptr<bootstrap::StoreService> store, std::unique_ptr<Output> output,
                         std::unique_ptr<JobProcesses> processes);

}  // namespace xoe::launch
