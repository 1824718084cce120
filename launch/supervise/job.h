// Supervises a job to its end.
#pragma once

#include <memory>

#include "core/bootstrap/store_service.h"
#include "launch/options/options.h"
#include "launch/output/job_outcome.h"
#include "launch/output/output.h"
#include "launch/supervise/job_processes.h"
#include "launch/supervise/signal_source.h"

namespace xoe::launch {

// Supervises ranks that were started already.
JobOutcome supervise_job(const RunOptions& options, SignalSource signals,
                         std::unique_ptr<bootstrap::StoreService> store, std::unique_ptr<Output> output,
                         std::unique_ptr<JobProcesses> processes);

}  // namespace xoe::launch
