// Why a host cannot be used, or was lost: messages that tell the user what to do.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "launch/remote/agent_connection.h"

namespace xoe::remote {

// Why no agent answered: from the exit status of the shell, what ssh wrote to stderr, and what came in place of a
// greeting.
struct Diagnosis {
  std::string kind;  // the same in every version: "permission_denied", "unknown_name", "xoe_missing", ..., or "other"
  std::string what;
  std::string fix;  // empty: not known
};
Diagnosis diagnose(const AgentConnection& agent, const ConnectOptions& options);

// For the user: each message names the host, and the lines below it quote the shell's stderr.
struct HostFailure {
  std::vector<std::string> lines;
  int exit_code = 125;
};

// The shell ended, or what came in was not from an agent, before the agent greeted.
HostFailure explain_no_agent(const AgentConnection& agent, const ConnectOptions& options);
// No greeting, or no answer after it, in time.
HostFailure explain_no_answer(const AgentConnection& agent, const ConnectOptions& options, bool greeted);
HostFailure explain_version(const AgentConnection& agent, const std::string& theirs, const std::string& ours,
                            const ConnectOptions& options);
// The agent's own reason.
HostFailure explain_refusal(const AgentConnection& agent, std::string_view reason, int exit_code);
// The connection ended in the middle of the job.
HostFailure explain_cut(const AgentConnection& agent, const ConnectOptions& options);
// Nothing came in for `time`.
HostFailure explain_silence(const AgentConnection& agent, std::chrono::nanoseconds time);
// For below one of the above: the hosts behind it, of which there is at least one, are lost too.
std::string explain_behind(const AgentConnection& agent, const std::vector<std::string>& behind);

}  // namespace xoe::remote
