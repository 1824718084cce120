#include "run.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/error.h"
#include "bootstrap/store.h"
#include "launch/arguments.h"
#include "launch/job.h"
#include "launch/program.h"

namespace xoe::tools {
namespace {

constexpr int kUsageError = 2;
constexpr int kLauncherFailed = 125;

void say(std::string_view line) { std::fprintf(stderr, "xoe run: %.*s\n", static_cast<int>(line.size()), line.data()); }

int fail(const Error& error, int code) {
  say(error.message());
  return code;
}

// Bad requests are for the user to mend; anything else is the host's trouble.
int code_for(const Error& error) { return error.code() == Code::kInvalidArgument ? kUsageError : kLauncherFailed; }

Result<launch::JobPlan> make_plan(const launch::RunOptions& options, const Env& env, const std::string& program) {
  XOE_ASSIGN(const auto host, launch::read_host_facts());
  XOE_ASSIGN(const auto token, bootstrap::random_token());
  XOE_ASSIGN(const auto secret, bootstrap::random_token());
  return launch::plan_job(options, env, host, program, token, secret);
}

}  // namespace

int run(std::span<const std::string_view> arguments) {
  auto parsed = launch::parse_run_arguments(arguments);
  if (!parsed) return fail(parsed.error(), kUsageError);
  if (parsed->help) {
    const auto help = launch::run_help();
    std::fwrite(help.data(), 1, help.size(), stdout);
    return 0;
  }
  launch::RunOptions& options = parsed->options;
  const Env env = Env::process();
  options.color = !env.has("NO_COLOR");
  const auto program = launch::find_program(options.command.front(), env);
  if (!program) return fail(program.error(), program.error().code() == Code::kUnavailable ? 127 : 126);
  const auto plan = make_plan(options, env, *program);
  if (!plan) return fail(plan.error(), code_for(plan.error()));
  const auto outcome = launch::run_job(options, *plan, STDOUT_FILENO, STDERR_FILENO);
  if (!outcome) return fail(outcome.error(), code_for(outcome.error()));
  for (const std::string& line : launch::report_lines(*outcome, options)) say(line);
  return launch::exit_code(*outcome);
}

}  // namespace xoe::tools
