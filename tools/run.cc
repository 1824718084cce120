#include "run.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/error.h"
#include "base/random_token.h"
#include "bootstrap/store.h"
#include "launch/arguments.h"
#include "launch/cores.h"
#include "launch/job.h"
#include "launch/program.h"
#include "run_hosts.h"

namespace xoe::tools {
namespace {

constexpr int kUsageError = 2;
constexpr int kLauncherFailed = 125;

int fail(const Error& error, int code) {
  say(error.message());
  return code;
}

// Bad requests are for the user to mend; anything else is the host's trouble.
int code_for(const Error& error) { return error.code() == Code::kInvalidArgument ? kUsageError : kLauncherFailed; }

Result<launch::JobPlan> make_plan(const launch::RunOptions& options, const Env& env, const std::string& program) {
  XOE_ASSIGN(const auto host, launch::read_host_facts());
  XOE_ASSIGN(const auto token, random_token());
  XOE_ASSIGN(const auto secret, random_token());
  return launch::plan_job(options, env, host, program, token, secret);
}

// Of a job on this host alone.
Status choose_size(launch::RunOptions& options, const launch::HostList& list) {
  const int slots = launch::all_slots(list);
  if (options.size == 0) options.size = slots;
  if (options.size == 0)
    return failure(Code::kInvalidArgument, "how many ranks? For example: xoe run -np 2 {}", options.command[0]);
  if (slots != 0 && options.size > slots && !options.where.oversubscribe)
    return failure(Code::kInvalidArgument,
                   "-np {}: the hosts have {} slots; give more (-H {}:N), or let ranks share with --oversubscribe",
                   options.size, slots, list.hosts.front().name);
  return {};
}

int describe_here(const launch::RunOptions& options, const launch::JobPlan& plan) {
  fmt::print("this host: {} rank{}, no agent\nprogram: {}\n", options.size, options.size == 1 ? "" : "s", plan.program);
  if (!plan.near.empty()) fmt::print("bound {}\n", plan.near);
  for (std::size_t rank = 0; options.binding != launch::Binding::kNone && rank < plan.ranks.size(); ++rank)
    fmt::print("rank {}: cpus {}\n", rank, launch::cpu_list_text(plan.ranks[rank].cpus));
  return 0;
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
  for (const std::string& note : options.notes) say(note);
  const auto hosts = launch::find_hosts(options, env);
  if (!hosts) return fail(hosts.error(), code_for(hosts.error()));
  if (!hosts->hosts.empty() && !launch::all_here(*hosts)) return run_on_hosts(options, *hosts, env);
  if (const auto sized = choose_size(options, *hosts); !sized) return fail(sized.error(), kUsageError);
  const auto program = launch::find_program(options.command.front(), env);
  if (!program) return fail(program.error(), program.error().code() == Code::kUnavailable ? 127 : 126);
  const auto plan = make_plan(options, env, *program);
  if (!plan) return fail(plan.error(), code_for(plan.error()));
  if (options.where.dry_run || options.where.check) return describe_here(options, *plan);
  const auto outcome = launch::run_job(options, *plan, STDOUT_FILENO, STDERR_FILENO);
  if (!outcome) return fail(outcome.error(), code_for(outcome.error()));
  for (const std::string& line : launch::report_lines(*outcome, options)) say(line);
  return launch::exit_code(*outcome);
}

}  // namespace xoe::tools
