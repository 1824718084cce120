// Runs a planned job to its end.
#pragma once

#include <memory>

#include "bootstrap/store_service.h"
#include "launch/crew.h"
#include "launch/options.h"
#include "launch/output.h"
#include "launch/plan.h"
#include "launch/report.h"
#include "launch/signal_source.h"
#include "xoe/status.h"

namespace xoe::launch {

// Starts the ranks on this host, serves their store, carries their output to `out` and `err`, passes signals on, and
// returns when no process of the job is left. The calling process has one thread, and descriptors 0-2 are open.
Result<JobOutcome> run_job(const RunOptions& options, const JobPlan& plan, int out, int err);

// The same for ranks that were started already. `options.size` is the number of them.
JobOutcome accompany(const RunOptions& options, SignalSource signals, std::unique_ptr<bootstrap::StoreService> store,
                     std::unique_ptr<Output> output, std::unique_ptr<Crew> crew);

}  // namespace xoe::launch
