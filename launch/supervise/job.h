// Supervises a job to its end.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "core/bootstrap/store_service.h"
#include "launch/options/options.h"
#include "launch/output/job_outcome.h"
#include "launch/output/output.h"
#include "launch/output/report.h"
#include "launch/supervise/job_processes.h"
#include "launch/supervise/signal_source.h"

namespace xoe::launch {

// The exit code of a job, for its record; nullopt: it begins again.
using CodeOf = std::function<std::optional<int>(const JobOutcome& outcome)>;

// Supervises ranks that were started already.
JobOutcome supervise_job(const RunOptions& options, SignalSource signals,
                         std::unique_ptr<bootstrap::StoreService> store, std::unique_ptr<Output> output,
                         std::unique_ptr<JobProcesses> processes, const CodeOf& code_of = exit_code);

}  // namespace xoe::launch
