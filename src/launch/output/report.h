// How a job ended, and the report of it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/options/options.h"
#include "launch/supervise/shutdown_policy.h"

namespace xoe::launch {

struct RankEnd {
  int rank = 0;
  pid_t pid = 0;
  int status = 0;  // of wait()
  std::chrono::nanoseconds ran = {};
  bool announced = false;  // it has said that it fails, and has not ended by itself; `status` is what it would be
};

struct JobOutcome {
  Cause cause = Cause::kNone;
  std::string host = {};
  std::optional<RankEnd> first_failure = {};  // by time
  int passed_on = 0;                          // the first signal that asked the launcher to end; 0: none
  bool killed_by_user = false;                // a second signal came
  std::set<std::size_t> signalled = {};       // the hosts at which such signals came; 0: the launcher's
  std::string followed = {};                  // failures that follow from its first signal, for the user; else empty
  int start_error = 0;                        // errno: kStartFailed
  int start_rank = 0;
  int output_error = 0;                  // errno of a write to stdout
  bool unread = false;                   // the rest of the output was not read in time
  int terminated = 0;                    // ranks that ended after SIGTERM was sent to them
  int killed = 0;                        // of those, by SIGKILL
  std::vector<std::string> rivals = {};  // ranks of other hosts that may have failed before it, for the user
  std::string last_line = {};            // that the first failure wrote to stderr, or else to stdout
  std::string reason = {};               // that it wrote before, where its last line tells nothing (reason_in())
  std::vector<std::string> file_errors = {};
  std::vector<std::string> host_failures = {};  // of hosts that were lost
  std::chrono::nanoseconds ran = {};
  std::vector<std::chrono::nanoseconds> restarts = {};  // of ranks: since the start, each
};

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
// output.
int exit_code(const JobOutcome& outcome);

// Lines for the user; none for a job that went well. `signalled`: those of several launchers that got the job's signal,
// "member 1 (host b)"; empty: this is the only one.
std::vector<std::string> report_lines(const JobOutcome& outcome, const RunOptions& options,
                                      std::string_view signalled = {});

}  // namespace xoe::launch
