// The report of how a job ended.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/options/options.h"
#include "launch/output/job_outcome.h"

namespace xoe::launch {

// "SIGTERM"
std::string signal_name(int signal);

// Whether a rank with this status of wait() died of the signal that it was sent, or ended because of it.
bool ended_as_asked(int status, int passed_on);

// "rank 1 (host a, pid 4711) exited with code 3 after 2 s"
std::string describe_end(const RankEnd& end, std::string_view host);

// The error in the last lines of an R program, which ends with the line "Execution halted" whatever happened: "Error in
// f(x) : no such layer". Empty: the last line is not that one, or the error is too far above it.
std::string reason_in(std::span<const std::string> lines);

// The exit code of `xoe run`: 0; the code of the rank that failed first, or 128 + its signal; 124 for the time limit;
// 125 when the launcher itself could not go on; 126 or 127 when the program could not be started; 141 for a closed
// output; 143 when every host was to leave, and the ranks have saved what they had.
int exit_code(const JobOutcome& outcome);

// Lines for the user; none for a job that went well. `signalled`: those of several launchers that got the job's signal,
// "member 1 (host b)"; empty: this is the only one.
std::vector<std::string> report_lines(const JobOutcome& outcome, const RunOptions& options,
                                      std::string_view signalled = {});

}  // namespace xoe::launch
