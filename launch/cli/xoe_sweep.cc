// xoe sweep: the same program with many settings, a job of `xoe run` for each.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/command_line/parse/command_line.h"
#include "launch/plan/cores.h"
#include "launch/plan/devices.h"
#include "launch/sweep/sweep.h"

namespace {

using namespace xoe;
using launch::SweepEnd;
using launch::SweepPlan;
using launch::TrialRecord;
using Json = nlohmann::ordered_json;

constexpr int kFailedTrials = 1;
using tools::kUsageError;

constexpr const char* kExamples = R"(Examples:
  xoe sweep --set lr=0.1,0.01 --set batch=16,32 --metric accuracy --dir a -- \
      xoe train --data data --epochs 2 --lr {lr} --batch {batch} --summary run
  xoe sweep --set lr=log:1e-4..1e-1 --random 20 --metric loss --goal min \
      --dir b -- python train.py --lr {lr}
  xoe pool run --gpus 4 -- xoe sweep --set seed=1,2,3 --dir c -- python train.py

A parameter that the command does not name as {NAME} is added to its end, as
--NAME=VALUE; {trial} is the trial's number from 1, {dir} its folder. Each trial
writes to DIR/trial.N/output.txt. The same command again goes on: trials that
succeeded are not run again.

Exit codes: 0 all trials succeeded, 1 some failed, 2 wrong usage,
128 + N signal N.)";

struct SweepOptions {
  std::vector<std::string> parameters;
  int random = 0;
  std::uint64_t seed = 1;
  int ranks = 1;
  int jobs = 0;
  std::string folder;
  std::string metric;
  bool minimize = false;
  int timeout = 0;
  bool stop_at_failure = false;
  bool list = false;
  bool json = false;
  std::vector<std::string> command;
};

// stderr may be closed or full; the sweep goes on.
void say(const std::string& line) { std::fprintf(stderr, "xoe sweep: %s\n", line.c_str()); }

int fail(const Error& error) {
  say(error.message());
  return error.code() == Code::kInvalidArgument ? kUsageError : kFailedTrials;
}

int print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) == 0) return 0;
  say("cannot write the output: " + errno_text(errno));
  return kFailedTrials;
}

Result<std::vector<launch::Trial>> trials_of(const SweepOptions& options) {
  std::vector<launch::Parameter> parameters;
  for (const std::string& text : options.parameters) {
    XOE_ASSIGN(auto one, launch::parse_parameter(text));
    if (std::ranges::find(parameters, one.name, &launch::Parameter::name) != parameters.end())
      return failure(Code::kInvalidArgument, "--set {}: {} is there already", text, one.name);
    if (one.name == "trial" || one.name == "dir")
      return failure(Code::kInvalidArgument, "--set {}: {{{}}} is the trial's own", text, one.name);
    parameters.push_back(std::move(one));
  }
  if (options.random == 0) return launch::all_trials(parameters);
  return launch::drawn_trials(parameters, static_cast<std::size_t>(options.random), options.seed);
}

Result<SweepPlan> plan_sweep(const SweepOptions& options, const Env& env) {
  SweepPlan plan{.folder = options.folder,
                 .command = options.command,
                 .metric = options.metric,
                 .ranks = options.ranks,
                 .stop_at_failure = options.stop_at_failure};
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return failure(Code::kUnavailable, "cannot find xoe: {}", error.message());
  plan.xoe = program.parent_path() / "xoe";
  if (options.timeout > 0) plan.timeout = std::chrono::seconds(options.timeout);
  XOE_ASSIGN(plan.trials, trials_of(options));
  XOE_ASSIGN(const auto cpus, launch::allowed_cpus());
  const int cores = launch::usable_cores(cpus.size());
  const auto devices = launch::visible_devices(env);
  if (devices.empty() && options.jobs == 0 && (env.has("ROCR_VISIBLE_DEVICES") || env.has("HIP_VISIBLE_DEVICES")))
    return failure(Code::kUnsupported, "{}",
                   "only NVIDIA's GPUs are shared out among trials; say how many run at once on these: --jobs N");
  XOE_ASSIGN(plan.slots, launch::slots_for(options.jobs, options.ranks, devices, cores));
  if (plan.slots.size() > plan.trials.size()) plan.slots.resize(plan.trials.size());
  plan.threads = std::max(1, cores / static_cast<int>(plan.slots.size()) / options.ranks);
  return plan;
}

// The trials that count, the best one first; without a metric in their order.
std::vector<std::size_t> ranked(const SweepEnd& end, bool minimize) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < end.records.size(); ++i)
    if (end.records[i] && end.records[i]->problem.empty()) order.push_back(i);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const auto& x = end.records[a]->metric;
    const auto& y = end.records[b]->metric;
    if (!x || !y || std::isnan(*x) || std::isnan(*y)) return x && !std::isnan(*x) && (!y || std::isnan(*y));
    return minimize ? *x < *y : *x > *y;
  });
  return order;
}

std::string table_of(const SweepPlan& plan, const SweepEnd& end, const std::vector<std::size_t>& order) {
  std::string text;
  for (const std::size_t i : order) {
    const TrialRecord& record = *end.records[i];
    const std::string metric = record.metric ? fmt::format("{} {:<10g}  ", plan.metric, *record.metric) : "";
    text +=
        fmt::format("trial {:<5} {}{:>7.0f} s  {}\n", i + 1, metric, record.seconds, launch::text_of(plan.trials[i]));
  }
  for (std::size_t i = 0; i < end.records.size(); ++i)
    if (end.records[i] && !end.records[i]->problem.empty())
      text +=
          fmt::format("trial {:<5} failed: {}: {}\n", i + 1, end.records[i]->problem, launch::text_of(plan.trials[i]));
  return text;
}

Json json_of(const SweepPlan& plan, const SweepEnd& end, const std::vector<std::size_t>& order) {
  Json all{{"metric", plan.metric.empty() ? Json() : Json(plan.metric)},
           {"best", order.empty() || plan.metric.empty() ? Json() : Json(order.front() + 1)},
           {"trials", Json::array()}};
  for (std::size_t i = 0; i < plan.trials.size(); ++i) {
    Json& one = all["trials"].emplace_back(Json{{"trial", i + 1}, {"parameters", Json::object()}});
    for (const auto& [name, value] : plan.trials[i]) one["parameters"][name] = value;
    const auto& record = end.records[i];
    one["state"] = !record ? "not run" : record->problem.empty() ? "done" : "failed";
    if (!record) continue;
    one["exit_code"] = record->code;
    one["seconds"] = record->seconds;
    if (record->metric) one["value"] = *record->metric;
    if (!record->problem.empty()) one["problem"] = record->problem;
  }
  return all;
}

int list(const SweepPlan& plan) {
  std::string text;
  for (std::size_t i = 0; i < plan.trials.size(); ++i)
    text += fmt::format("trial {}: {}\n", i + 1, launch::text_of(plan.trials[i]));
  return print(text);
}

int sweep(const SweepOptions& options) {
  const Env env = Env::process();
  const auto plan = plan_sweep(options, env);
  if (!plan) return fail(plan.error());
  if (options.list) return list(*plan);
  auto records = launch::TrialRecords::open(plan->folder, plan->trials, plan->command, plan->metric);
  if (!records) return fail(records.error());
  const auto done = std::ranges::count_if(records->all(), [](const auto& one) { return one && one->problem.empty(); });
  say(fmt::format("{}{}, {} at a time; results are in {}", counted(std::ssize(plan->trials), "trial"),
                  done > 0 ? fmt::format(", {} done before", done) : "", plan->slots.size(), plan->folder));
  const auto end = launch::run_sweep(*plan, *records, env, say);
  if (!end) return fail(end.error());
  const auto order = ranked(*end, options.minimize);
  const int printed =
      print(options.json ? json_of(*plan, *end, order).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"
                         : table_of(*plan, *end, order));
  if (end->signal != 0) return 128 + end->signal;
  return order.size() == plan->trials.size() ? printed : kFailedTrials;
}

void add_options(CLI::App& app, SweepOptions& options) {
  app.add_option("--set", options.parameters,
                 "a parameter: NAME=A,B,C; or a range to draw from: NAME=LOW..HIGH, log:LOW..HIGH, int:LOW..HIGH")
      ->required()
      ->type_name("NAME=VALUES")
      ->allow_extra_args(false);
  tools::add_number(app, "--random", options.random, 0, launch::kMostTrials,
                    "draw so many trials; 0: all combinations");
  tools::add_setting(app, "--seed", options.seed, "of what is drawn");
  app.add_option("--dir", options.folder, "folder of the results")->required()->type_name("DIR");
  app.add_option("--metric", options.metric,
                 "the last NAME=NUMBER, NAME: NUMBER or \"NAME\": NUMBER that a trial prints, or has in its "
                 "metrics.jsonl, tells how good it is")
      ->type_name("NAME");
  tools::add_choice(app, "--goal", options.minimize, {{"max", false}, {"min", true}}, "which value is the best");
  tools::add_number(app, "-n,--np", options.ranks, 1, launch::kMaxRanksPerHost, "ranks of each trial");
  tools::add_number(app, "--jobs", options.jobs, 0, 4096,
                    "trials at a time; 0: as many as GPUs, or cores, suffice for");
  tools::add_number(app, "--timeout", options.timeout, 0, 100'000'000, "seconds until a trial is ended; 0: never");
  app.add_flag("--stop-at-failure", options.stop_at_failure, "start no other trial when one has failed");
  app.add_flag("--list", options.list, "print the trials; run none");
  app.add_flag("--json", options.json, "print one JSON object in place of the table");
  tools::add_program(app, options.command, "the program and its arguments");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs a program with many settings: all combinations of values, or a random search.", "xoe sweep");
  app.footer(kExamples);
  app.positionals_at_end();
  SweepOptions options;
  add_options(app, options);
  if (const auto answer = tools::understand(app, argc, argv)) return tools::tell(*answer);
  return sweep(options);
}
