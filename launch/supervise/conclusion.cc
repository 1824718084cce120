#include "launch/supervise/conclusion.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/output/report.h"

namespace xoe::launch {
namespace {

constexpr std::ptrdiff_t kUnshownLines = 20;  // of a rank that failed
constexpr std::size_t kLookedAt = 100;        // lines, for a reason

// What a rank wrote last tells why it failed.
void quote(JobOutcome& outcome, int rank, const RunOptions& options, const JobProcesses& processes) {
  for (const bool err : {false, true}) {
    const auto lines = processes.stream_of(static_cast<std::size_t>(rank), err).last_lines(kLookedAt);
    if (lines.empty()) continue;
    outcome.last_line = lines.back();
    outcome.reason = reason_in(lines);
    if (!options.shows(rank))
      outcome.unshown.assign(lines.end() - std::min(std::ssize(lines), kUnshownLines), lines.end());
  }
}

// A limit of the launcher's own stays the cause.
void blame(JobOutcome& outcome, const Fault& first, const RunOptions& options, const JobProcesses& processes) {
  if (outcome.cause == Cause::kRankFailed || outcome.cause == Cause::kHostLost ||
      outcome.cause == Cause::kSupervisorLost)
    outcome.cause = first.cause;
  if (outcome.cause != Cause::kStartFailed) outcome.host = processes.host_name(first.host);
  outcome.first_failure = first.end;
  if (first.end) quote(outcome, first.end->rank, options, processes);
}

// Of whom it is not known whether they ended before the one that is blamed.
void name_rivals(JobOutcome& outcome, const FirstFault& faults, const JobProcesses& processes) {
  const auto at = faults.first().at;
  for (const Fault& rival : faults.rivals())
    outcome.rivals.push_back(fmt::format("{} within {} of it",
                                         describe_end(*rival.end, processes.host_name(rival.host)),
                                         human_seconds(std::chrono::abs(rival.at - at))));
}

std::string followed_text(const RequestedStop& stop, const JobProcesses& processes) {
  const auto& followed = stop.followed();
  if (followed.empty()) return {};
  const RankEnd& first = *followed.front().end;
  std::string text = describe_end(first, processes.host_of(first.rank)) + ", when another rank had ended";
  if (followed.size() > 1) text += fmt::format("; so did {}", counted(std::ssize(followed) - 1, "other rank"));
  return text;
}

}  // namespace

void conclude(JobOutcome& outcome, const RunOptions& options, const FirstFault& faults, const RequestedStop& stop,
              JobProcesses& processes) {
  outcome.file_errors = processes.file_errors();
  outcome.host_failures = processes.take_host_failures();
  outcome.host = processes.host_of(outcome.start_rank);
  if (!faults.empty()) {
    blame(outcome, faults.first(), options, processes);
    name_rivals(outcome, faults, processes);
  } else if (const auto failure = stop.first_failure()) {
    if (outcome.cause == Cause::kNone) outcome.cause = Cause::kRankFailed;
    blame(outcome, *failure, options, processes);
    outcome.followed = followed_text(stop, processes);
  }
}

}  // namespace xoe::launch
