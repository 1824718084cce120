// xoe bench isolate: how much jobs on disjoint parts of a machine slow each other.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/command_line/parse/command_line.h"
#include "measure/cli/isolation.h"
#include "measure/cli/output_flags.h"
#include "measure/cli/train_child.h"
#include "measure/cli/verbs/verbs.h"

namespace xoe::bench {
namespace {

constexpr const char* kIsolateExamples = R"(
Examples:
  xoe bench isolate --jobs 2 -- --model resnet18 --image-size 64 --batch-size 8
  xoe bench isolate --jobs 2 --ranks 2 --rounds 5 -- --model resnet50
  xoe bench isolate --jobs 4 --gpus-per-job 1 -- --model resnet50 --device cuda

Words after -- are flags of `xoe bench train`.)";

struct IsolateFlags {
  int jobs = 2;
  int ranks = 1;
  int rounds = 3;
  int gpus_per_job = 0;
  std::uint64_t seed = 1;
  std::vector<std::string> train;
  OutputFlags out;
};

struct JobPlace {
  std::string name;
  TrainChildOptions job;
};

Result<std::vector<JobPlace>> places_of(const IsolateFlags& flags) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return failure(Code::kUnavailable, "cannot ask which CPUs this process may use: {}", errno_text(errno));
  XOE_ASSIGN(const auto parts, part_cpus(cpus_of(allowed), flags.jobs));
  std::vector<JobPlace> places;
  int gpu = 0;
  for (const std::vector<int>& part : parts) {
    JobPlace place{.name = "CPUs " + ranges_text(part), .job = {.ranks = flags.ranks, .flags = flags.train}};
    cpu_set_t& cpus = place.job.cpus.emplace();
    CPU_ZERO(&cpus);
    for (const int cpu : part) CPU_SET(cpu, &cpus);
    std::vector<int> gpus;
    gpus.reserve(static_cast<std::size_t>(flags.gpus_per_job));
    for (int i = 0; i < flags.gpus_per_job; ++i) gpus.push_back(gpu++);
    if (!gpus.empty()) {
      place.name += ", GPUs " + ranges_text(gpus);
      place.job.variables["CUDA_VISIBLE_DEVICES"] = fmt::format("{}", fmt::join(gpus, ","));
    }
    places.push_back(std::move(place));
  }
  return places;
}

Status run_alone(const std::vector<JobPlace>& places, Isolation& isolation) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    XOE_ASSIGN(auto job, TrainChild::start(places[i].job));
    XOE_ASSIGN(const TrainResult result, job.finish());
    isolation.jobs[i].alone.push_back(spread_of(result.speeds()).mean);
    isolation.model = result.model;
    isolation.emulated_images_per_s = result.emulated_images_per_s;
    isolation.environment = result.environment;
  }
  return {};
}

Status run_together(const std::vector<JobPlace>& places, Isolation& isolation) {
  std::vector<TrainChild> jobs;
  for (const JobPlace& place : places) {
    XOE_ASSIGN(auto job, TrainChild::start(place.job));
    jobs.push_back(std::move(job));
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    XOE_ASSIGN(const TrainResult result, jobs[i].finish());
    isolation.jobs[i].together.push_back(spread_of(result.speeds()).mean);
  }
  return {};
}

Status isolate(const IsolateFlags& flags) {
  XOE_ASSIGN(const auto places, places_of(flags));
  Isolation isolation = {.model = {}, .ranks = flags.ranks, .jobs = {}};
  for (const JobPlace& place : places) isolation.jobs.push_back({.place = place.name, .alone = {}, .together = {}});
  for (int round = 0; round < flags.rounds; ++round) {
    if (::isatty(STDERR_FILENO) == 1) fmt::print(stderr, "round {} of {} ...\n", round + 1, flags.rounds);
    XOE_TRY(run_alone(places, isolation));
    XOE_TRY(run_together(places, isolation));
  }
  const IsolationReport report = report_isolation(isolation, flags.seed);
  return put_out(flags.out, isolation_text(isolation, report), to_json(isolation, report),
                 [&] { return isolation_page(isolation, report); });
}

}  // namespace

void add_isolate(CLI::App& app, char** /*argv*/, int& code) {
  const auto flags = std::make_shared<IsolateFlags>();
  auto* verb = app.add_subcommand("isolate", "jobs on disjoint CPUs or GPUs: speed alone and together");
  verb->footer(kIsolateExamples);
  verb->add_option("FLAGS", flags->train, "of `xoe bench train`, after --");
  verb->option_defaults()->group("Jobs");
  tools::add_number(*verb, "--jobs", flags->jobs, 1, 1024, "at once, each on its part of the CPUs");
  tools::add_number(*verb, "--ranks", flags->ranks, 1, 1024, "of each job");
  tools::add_number(*verb, "--gpus-per-job", flags->gpus_per_job, 0, 64, "that each job sees, and no other does");
  tools::add_number(*verb, "--rounds", flags->rounds, 1, 1000,
                    "each of all jobs alone, one after the other, then together");
  add_output(*verb, flags->out);
  tools::add_setting(*verb, "--seed", flags->seed, "of the bootstrap");
  verb->callback([flags, &code] {
    if (const Status done = isolate(*flags); !done) code = failed("isolate", done.error());
  });
}

}  // namespace xoe::bench
