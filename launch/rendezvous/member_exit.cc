#include "launch/rendezvous/member_exit.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/output/report.h"
#include "launch/plan/agent_job.h"

namespace xoe::launch {
namespace {

constexpr std::size_t kNamedMembers = 4;

// 128 + a signal, as a shell has it.
bool of_signal(int code) { return code > 128 && code <= 128 + SIGRTMAX; }

}  // namespace

int member_code(const JobOutcome& outcome, std::size_t host, std::string_view name) {
  // Also where all ranks ended well: those that saved their state and left are not done.
  if (outcome.passed_on == SIGTERM) return outcome.signalled.contains(host) ? kRetryElsewhere : kRetryHere;
  const int code = exit_code(outcome);
  const int retry = outcome.host == name ? kRetryElsewhere : kRetryHere;
  switch (outcome.cause) {
    case Cause::kRankFailed: return outcome.passed_on == 0 && of_signal(code) ? retry : code;
    case Cause::kStartFailed: return outcome.start_error == EAGAIN || outcome.start_error == ENOMEM ? retry : code;
    case Cause::kSupervisorLost:
    case Cause::kHostLost: return retry;
    default: return code;
  }
}

int member_code_of_start(int code) {
  if (code == 128 + SIGTERM || code == kHostFailed) return kRetryHere;
  return code;
}

std::string code_in_words(int code) {
  switch (code) {
    case kRetryHere: return fmt::format("exit code {}: run it again; this host is not to blame", code);
    case kRetryElsewhere: return fmt::format("exit code {}: run it again, on another host if there is one", code);
    default: return {};
  }
}

std::string signalled_members(const JobOutcome& outcome, const std::vector<std::string>& hosts) {
  if (outcome.signalled.empty()) return {};
  if (outcome.signalled.size() > 1 && outcome.signalled.size() == hosts.size()) return "every member";
  std::vector<std::string> named;
  for (const std::size_t host : outcome.signalled)
    if (named.size() < kNamedMembers) named.push_back(fmt::format("{} (host {})", host, hosts[host]));
  const std::size_t more = outcome.signalled.size() - named.size();
  return fmt::format("member{} {}{}", outcome.signalled.size() == 1 ? "" : "s", fmt::join(named, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

bool calls_for_next_round(const JobOutcome& outcome) {
  return outcome.passed_on == 0 && (outcome.cause == Cause::kHostLost || outcome.cause == Cause::kSupervisorLost);
}

int restarts_used(const JobOutcome& outcome, std::chrono::nanoseconds notice) {
  const auto counts = [&](std::chrono::nanoseconds at) {
    return !calls_for_next_round(outcome) || at < outcome.ran - notice;
  };
  return static_cast<int>(std::ranges::count_if(outcome.restarts, counts));
}

}  // namespace xoe::launch
