// Why a host is not, or no longer, of use, in words that tell the user what to do.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "launch/host_link.h"

namespace xoe::launch {

struct HostFailure {
  std::vector<std::string> lines;
  int exit_code = 125;
};

// The shell ended, or what came was no agent's, before the agent greeted.
HostFailure explain_no_agent(const HostLink& link, const HostOptions& where, const std::string& xoe_path);
// No greeting, or no answer after it, in time.
HostFailure explain_no_answer(const HostLink& link, const HostOptions& where, bool greeted);
HostFailure explain_version(const HostLink& link, const std::string& theirs, const std::string& ours,
                            const std::string& xoe_path);
// The agent's own reason.
HostFailure explain_refusal(const HostLink& link, std::string_view reason, int exit_code);
// The connection ended in the middle of the job.
HostFailure explain_cut(const HostLink& link, const HostOptions& where);
// Nothing was heard of it for so long.
HostFailure explain_silence(const HostLink& link, std::chrono::nanoseconds time);
// For below one of the above: what that means for the hosts behind it, of which there is at least one.
std::string explain_behind(const HostLink& link, const std::vector<std::string>& behind);

}  // namespace xoe::launch
