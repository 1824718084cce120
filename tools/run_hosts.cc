#include "run_hosts.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/random_token.h"
#include "base/text.h"
#include "bootstrap/store.h"
#include "launch/hosts_crew.h"
#include "launch/hosts_start.h"
#include "launch/job.h"
#include "launch/job_streams.h"

namespace xoe::tools {
namespace {

constexpr int kUsageError = 2;
constexpr int kLauncherFailed = 125;

int fail(const Error& error) {
  say(error.message());
  return error.code() == Code::kInvalidArgument ? kUsageError : kLauncherFailed;
}

Result<launch::HostsPlan> make_plan(launch::RunOptions& options, const launch::HostList& list, const Env& env) {
  XOE_ASSIGN(const auto token, random_token());
  XOE_ASSIGN(const auto secret, random_token());
  return launch::plan_hosts(options, list, env, XOE_VERSION, token, secret);
}

std::string milliseconds(std::chrono::nanoseconds time) {
  return fmt::format("{:.1f} ms", std::chrono::duration<double, std::milli>(time).count());
}

// Clocks that differ by more than what the question took, and visibly.
constexpr auto kClockTolerance = std::chrono::seconds(1);

void print_check(const launch::HostCheck& check) {
  const bool off = std::chrono::abs(check.clock) - check.clock_err > kClockTolerance;
  fmt::print("host {}: ready in {}; {} rank{} on {} cores of {}{}{}; program {}; clock {}{} (+/- {}){}\n", check.name,
             milliseconds(check.answered), check.ranks, check.ranks == 1 ? "" : "s", check.cores, check.hostname,
             check.near.empty() ? "" : ", ", check.near, check.program, check.clock.count() < 0 ? "" : "+",
             milliseconds(check.clock), milliseconds(check.clock_err), off ? ": set it, for example with chrony" : "");
}

int say_failure(const launch::HostFailure& failure, int interrupted_by) {
  for (const std::string& line : failure.lines) say(line);
  if (interrupted_by != 0)
    say(fmt::format("ended by SIG{} before all hosts were ready", ::sigabbrev_np(interrupted_by)));
  else
    say("nothing was started");
  return failure.exit_code;
}

}  // namespace

void say(std::string_view line) { std::fprintf(stderr, "xoe run: %.*s\n", static_cast<int>(line.size()), line.data()); }

int run_on_hosts(launch::RunOptions& options, const launch::HostList& list, const Env& env) {
  const auto plan = make_plan(options, list, env);
  if (!plan) return fail(plan.error());
  if (options.where.dry_run) {
    for (const std::string& line : launch::describe(*plan, options)) fmt::print("{}\n", line);
    return 0;
  }
  launch::see_children_end();
  const auto open_files = launch::allow_open_files(options.size);
  if (!open_files) return fail(open_files.error());
  auto output = std::make_unique<launch::Output>(STDOUT_FILENO, STDERR_FILENO);
  auto streams = launch::open_remote_streams(options, *output);
  if (!streams) return fail(streams.error());
  auto signals = launch::SignalSource::open();
  if (!signals) return fail(signals.error());
  launch::HostsStart start(options, *plan, env, *signals, *open_files);
  auto started = start.run(!options.where.check);
  if (options.where.check)
    for (const launch::HostCheck& check : start.checks()) print_check(check);
  if (!started) return say_failure(started.error(), start.interrupted_by());
  if (options.where.check) {
    launch::part_from(started->links);
    return 0;
  }
  auto crew = std::make_unique<launch::HostsCrew>(options, std::move(started->links), std::move(*streams), *output);
  const auto outcome =
      launch::accompany(options, std::move(*signals), std::move(started->store), std::move(output), std::move(crew));
  for (const std::string& line : launch::report_lines(outcome, options)) say(line);
  return launch::exit_code(outcome);
}

}  // namespace xoe::tools
