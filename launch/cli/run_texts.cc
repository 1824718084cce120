#include "launch/cli/run_texts.h"

#include <cstdio>
#include <string>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/command_line/command.h"

namespace xoe::tools {
namespace {

std::string milliseconds(std::chrono::nanoseconds time) {
  return fmt::format("{:.1f} ms", std::chrono::duration<double, std::milli>(time).count());
}

// By which clocks may differ beyond the time that the request took.
constexpr auto kClockTolerance = std::chrono::seconds(1);

}  // namespace

void say(std::string_view line) { std::fprintf(stderr, "xoe run: %.*s\n", static_cast<int>(line.size()), line.data()); }

int fail(const Error& error, int code) {
  say(error.message());
  return code;
}

int fail(const Error& error) {
  return fail(error, error.code() == Code::kInvalidArgument ? command_line::kUsageError : kLauncherFailed);
}

int print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) == 0) return 0;
  return fail(Error(Code::kUnavailable, "cannot write the output: " + errno_text(errno)), kLauncherFailed);
}

void say_report(const launch::JobOutcome& outcome, const launch::RunOptions& options) {
  for (const std::string& line : launch::report_lines(outcome, options)) say(line);
}

void print_check(const launch::HostCheck& check) {
  const bool off = std::chrono::abs(check.clock) - check.clock_err > kClockTolerance;
  fmt::print("host {}: ready in {}; {} on {} of {}{}{}; program {}; clock {}{} (+/- {}){}\n", check.name,
             milliseconds(check.answered), counted(check.ranks, "rank"), counted(check.cores, "core"), check.hostname,
             check.locality.empty() ? "" : ", ", check.locality, check.program, check.clock.count() < 0 ? "" : "+",
             milliseconds(check.clock), milliseconds(check.clock_err), off ? ": set it, for example with chrony" : "");
}

}  // namespace xoe::tools
