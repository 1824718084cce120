// What a member of a job ends with: exit codes on which a scheduler's rules can be written.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "launch/output/job_outcome.h"

namespace xoe::launch {

// Run it again: this host is not to blame. EX_TEMPFAIL of sysexits.h.
inline constexpr int kRetryHere = 75;
// Run it again, best on another host: this one is going away, or something broke on it.
inline constexpr int kRetryElsewhere = 76;

// The exit code of the member `host`. Any other than the two above and 0: the job would fail again.
int member_code(const JobOutcome& outcome, std::size_t host, std::string_view name);

// Of a job that could not be started; `code` is the one of `xoe run` with hosts.
int member_code_of_start(int code);

// The meaning of such a code for a scheduler, "exit code 75: run it again; ..."; empty for all others.
std::string code_in_words(int code);

// Who got the signal that ended the job, "member 1 (host b)"; `hosts` by member. Empty: there was none.
std::string signalled_members(const JobOutcome& outcome, const std::vector<std::string>& hosts);

// Whether the members that are left should begin again, where they may.
bool calls_for_next_round(const JobOutcome& outcome);

// How many restarts a job has used. Ranks that notice the loss of a host before the launcher does, within `notice`, are
// restarted for nothing: these do not count.
int restarts_used(const JobOutcome& outcome, std::chrono::nanoseconds notice);

}  // namespace xoe::launch
