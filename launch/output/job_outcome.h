// How a job ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace xoe::launch {

enum class Cause : std::uint8_t {
  kNone,            // all ranks ended with 0
  kRankFailed,      // a rank ended with another code or by a signal
  kStartFailed,     // a rank could not be started
  kTimeout,         // the job's time limit
  kSignalLimit,     // ranks still ran long after another had ended because of the user's signal
  kOutputClosed,    // the reader of the launcher's stdout is gone
  kSupervisorLost,  // the supervisor was killed
  kHostLost,        // a host or its agent went away
};

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
  bool all_leave = false;                     // `passed_on` is the launcher's own: no host is left
  std::set<std::size_t> signalled = {};       // the hosts at which such signals came; 0: the launcher's
  std::string followed = {};                  // failures that follow from its first signal, for the user; else empty
  int start_error = 0;                        // errno: kStartFailed
  int start_rank = 0;
  int output_error = 0;                   // errno of a write to stdout
  bool unread = false;                    // the rest of the output was not read in time
  int terminated = 0;                     // ranks that ended after SIGTERM was sent to them
  int killed = 0;                         // of those, by SIGKILL
  std::vector<std::string> rivals = {};   // ranks of other hosts that may have failed before it, for the user
  std::string last_line = {};             // that the first failure wrote to stderr, or else to stdout
  std::vector<std::string> unshown = {};  // its last lines, where --only-rank has kept them from the user
  std::string reason = {};                // that it wrote before, where its last line tells nothing (reason_in())
  std::vector<std::string> file_errors = {};
  std::vector<std::string> host_failures = {};  // of hosts that were lost
  std::chrono::nanoseconds ran = {};
  std::vector<std::chrono::nanoseconds> restarts = {};  // of ranks: since the start, each
};

}  // namespace xoe::launch
