#include "launch/output/report.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/command_line/terminal.h"
#include "launch/remote/spawn.h"

namespace xoe::launch {
namespace {

std::string hint_for(int status) {
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return {};
  return "; unless a user killed it, the kernel ran out of memory (see dmesg)";
}

// Programs that handle SIGINT and SIGTERM themselves, as xoe train does, often end with 130.
constexpr int kInterrupted = 128 + SIGINT;

constexpr std::size_t kLongestQuote = 200;
constexpr std::size_t kNamedRivals = 3;

// The ranks that the launcher ended, after the first failure or because of a limit of its own.
std::string others_text(const JobOutcome& outcome, const RunOptions& options) {
  if (outcome.terminated == 0) return {};
  const bool none_was_first =
      outcome.cause == Cause::kTimeout || outcome.cause == Cause::kSignalLimit || outcome.cause == Cause::kOutputClosed;
  std::string text = fmt::format("{} {}rank{} ended by SIGTERM", outcome.terminated, none_was_first ? "" : "other ",
                                 outcome.terminated == 1 ? " was" : "s were");
  if (outcome.killed > 0)
    text += fmt::format(", {} of them by SIGKILL{}", outcome.killed,
                        outcome.killed_by_user ? "" : fmt::format(" after {} of grace", human_seconds(options.grace)));
  return text;
}

// How the user, or a scheduler, ended the job; empty: it did not, or the ranks ended well.
std::string signal_text(const JobOutcome& outcome, std::string_view signalled) {
  if (outcome.passed_on == 0) return {};
  const std::string signal = signal_name(outcome.passed_on), ran = human_seconds(outcome.ran);
  if (!signalled.empty())
    return fmt::format("{} got {}{}; all ranks {} it, after {}", signalled, signal,
                       outcome.killed_by_user ? ", and a second one" : "",
                       outcome.killed_by_user ? "were killed by" : "have ended with", ran);
  if (outcome.all_leave && !outcome.killed_by_user)
    return fmt::format("ended after {}, because every host was to leave: begin it again", ran);
  if (!outcome.killed_by_user && outcome.cause == Cause::kNone) return {};
  return fmt::format("{} by {} after {}", outcome.killed_by_user ? "killed" : "ended", signal, ran);
}

// What it wrote before that, a traceback say, has been shown already.
std::string blame(const JobOutcome& outcome) {
  const RankEnd& end = *outcome.first_failure;
  std::string line = describe_end(end, outcome.host) + hint_for(end.status);
  const bool reason = !outcome.reason.empty();
  const std::string quote = command_line::fitted(trimmed(reason ? outcome.reason : outcome.last_line), kLongestQuote);
  return quote.empty() ? line : fmt::format("{}; {}: {}", line, reason ? "it wrote" : "its last line", quote);
}

std::string rivals_text(const JobOutcome& outcome) {
  if (outcome.rivals.empty()) return {};
  const std::size_t named = std::min(outcome.rivals.size(), kNamedRivals);
  const std::size_t more = outcome.rivals.size() - named;
  return fmt::format(
      "which came first is not known: {}{}",
      fmt::join(outcome.rivals.begin(), outcome.rivals.begin() + static_cast<std::ptrdiff_t>(named), "; "),
      more == 0 ? "" : fmt::format("; and {} on other hosts", counted(static_cast<std::int64_t>(more), "rank")));
}

// The ranks ended well, or as the signal asked.
bool ended_as_it_should(const JobOutcome& outcome) {
  if (outcome.cause != Cause::kRankFailed) return outcome.cause == Cause::kNone || outcome.cause == Cause::kSignalLimit;
  return !outcome.followed.empty() || ended_as_asked(outcome.first_failure->status, outcome.passed_on);
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

bool ended_as_asked(int status, int passed_on) {
  const int code = remote::exit_code_of(status);
  if (passed_on == SIGINT || passed_on == SIGTERM) return code == 128 + passed_on || code == kInterrupted;
  return passed_on != 0 && code == 128 + passed_on;
}

std::string describe_end(const RankEnd& end, std::string_view host) {
  return fmt::format("rank {} (host {}, pid {}) {} after {}", end.rank, host, end.pid,
                     end.announced ? "failed" : remote::describe_status(end.status), human_seconds(end.ran));
}

std::string reason_in(std::span<const std::string> lines) {
  while (!lines.empty() && trimmed(lines.back()).empty()) lines = lines.first(lines.size() - 1);
  if (lines.empty() || trimmed(lines.back()) != "Execution halted") return {};
  for (std::size_t i = lines.size() - 1; i-- > 0;) {
    if (!lines[i].starts_with("Error:") && !lines[i].starts_with("Error in ")) continue;
    std::string reason(trimmed(lines[i]));
    // R begins a new line, with two blanks, for what is too long for the first one; rlang's begins with "! ".
    for (std::size_t more = i + 1; more < lines.size() - 1; ++more) {
      const std::string_view line = lines[more];
      if (!line.starts_with("  ") && !line.starts_with("! ")) break;
      reason.append(" ").append(trimmed(line.substr(2)));
    }
    return reason;
  }
  return {};
}

int exit_code(const JobOutcome& outcome) {
  if (outcome.killed_by_user) return 128 + outcome.passed_on;
  if (outcome.all_leave && ended_as_it_should(outcome)) return 128 + SIGTERM;
  switch (outcome.cause) {
    case Cause::kNone: return 0;
    case Cause::kRankFailed: {
      const int status = outcome.first_failure->status;
      const bool followed = !outcome.followed.empty() && !ended_as_asked(status, outcome.passed_on);
      return followed ? 128 + outcome.passed_on : remote::exit_code_of(status);
    }
    case Cause::kStartFailed: return outcome.start_error == ENOENT ? 127 : 126;
    case Cause::kTimeout: return 124;
    case Cause::kSignalLimit: return 128 + outcome.passed_on;
    case Cause::kOutputClosed: return outcome.output_error == EPIPE ? 128 + SIGPIPE : 125;
    case Cause::kSupervisorLost:
    case Cause::kHostLost: return 125;
  }
  return 125;
}

std::vector<std::string> report_lines(const JobOutcome& outcome, const RunOptions& options,
                                      std::string_view signalled) {
  std::vector<std::string> lines;
  for (const std::string& error : outcome.file_errors) lines.push_back(error);
  if (std::string text = signal_text(outcome, signalled); !text.empty()) lines.push_back(std::move(text));
  if (outcome.output_error != 0 && outcome.output_error != EPIPE)
    lines.push_back("cannot write the job's output: " + errno_text(outcome.output_error));
  if (outcome.unread) lines.emplace_back("the rest of the job's output is lost: no reader took it in time");
  lines.insert(lines.end(), outcome.host_failures.begin(), outcome.host_failures.end());
  switch (outcome.cause) {
    case Cause::kNone: return lines;
    case Cause::kRankFailed:
      if (!outcome.followed.empty())
        lines.push_back(outcome.followed);
      else if (!ended_as_asked(outcome.first_failure->status, outcome.passed_on) && !outcome.killed_by_user)
        lines.push_back(blame(outcome));
      if (!outcome.unshown.empty()) {
        lines.emplace_back("the last lines of that rank, which --only-rank has not shown:");
        for (const std::string& line : outcome.unshown) lines.push_back("  " + line);
      }
      if (std::string text = rivals_text(outcome); !text.empty()) lines.push_back(std::move(text));
      break;
    case Cause::kStartFailed:
      lines.push_back(fmt::format(
          "cannot start rank {}: {} (host {}){}", outcome.start_rank, errno_text(outcome.start_error), outcome.host,
          outcome.start_error == EAGAIN ? "; the limit on processes is reached (ulimit -u)" : ""));
      break;
    case Cause::kTimeout:
      lines.push_back(fmt::format("the job's time limit of {} is over (--timeout)",
                                  human_seconds(options.timeout.value_or(std::chrono::nanoseconds()))));
      break;
    case Cause::kSignalLimit:
      lines.push_back(fmt::format("{} still ran {} after the first had ended, the limit of --signal-limit",
                                  counted(outcome.terminated, "rank"), human_seconds(options.signal_limit)));
      break;
    case Cause::kOutputClosed: break;
    case Cause::kHostLost: break;
    case Cause::kSupervisorLost:
      lines.push_back(
          fmt::format("the supervisor process of the ranks on host {} was killed, and they with it", outcome.host));
      break;
  }
  if (const std::string others = others_text(outcome, options); !others.empty() && !lines.empty())
    lines.push_back(others);
  return lines;
}

}  // namespace xoe::launch
