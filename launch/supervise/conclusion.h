// Completes the outcome of a job that has ended: its cause, and the rank or the host that is to blame.
#pragma once

#include "launch/options/options.h"
#include "launch/output/job_outcome.h"
#include "launch/supervise/first_fault.h"
#include "launch/supervise/job_processes.h"
#include "launch/supervise/requested_stop.h"

namespace xoe::launch {

// Completes `outcome`, whose cause is that of the launcher's shutdown. No process of the job is left.
void conclude(JobOutcome& outcome, const RunOptions& options, const FirstFault& faults, const RequestedStop& stop,
              JobProcesses& processes);

}  // namespace xoe::launch
