// xoe bench scale: `xoe bench train` at several numbers of ranks.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/error.h"
#include "core/command_line/parse/command_line.h"
#include "measure/cli/output_flags.h"
#include "measure/cli/scaling.h"
#include "measure/cli/train_child.h"
#include "measure/cli/verbs/verbs.h"
#include "measure/cli/words.h"

namespace xoe::bench {
namespace {

constexpr const char* kScaleExamples = R"(
Examples:
  xoe bench scale --ranks 1,2,4 -- --model resnet18 --image-size 64 --threads 1
  xoe bench scale --ranks 1,2 --strong --batch-size 32 -- --model resnet50
  xoe bench scale --ranks 1,2,4,8,16 --emulate-accelerator 300 -- --model resnet50
  xoe bench scale --ranks 4,8,16 -H nodeA:4,nodeB:4,nodeC:4,nodeD:4 --html scaling.html

Words after -- are flags of `xoe bench train`.)";

struct ScaleFlags {
  std::vector<int> ranks = {1, 2, 4};
  std::vector<int> pretended_hosts = {1};
  std::string hosts;
  bool strong = false;
  int batch = 32;
  int repeat = 3;
  double emulated_images_per_s = 0;
  std::uint64_t seed = 1;
  std::vector<std::string> train;
  OutputFlags out;
};

int cores() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

bool has_flag(const ScaleFlags& flags, std::string_view name) {
  return std::ranges::any_of(with_dashes(flags.train), [name](const std::string& word) {
    return word == name || word.starts_with(std::string(name) + "=");
  });
}

Status check(const ScaleFlags& flags) {
  for (const int ranks : flags.ranks)
    if (flags.strong && flags.batch % ranks != 0)
      return failure(Code::kInvalidArgument, "--strong: a batch of {} cannot be cut into {} equal parts", flags.batch,
                     ranks);
  for (const char* ours : {"--batch-size", "--repeat", "--output", "--json", "--html", "--emulate-accelerator"})
    if (has_flag(flags, ours))
      return failure(Code::kInvalidArgument, "{} stands before --: xoe bench scale sets it for all sizes", ours);
  return {};
}

std::vector<std::string> train_words(const ScaleFlags& flags, int ranks) {
  std::vector<std::string> words = {"--batch-size", fmt::to_string(flags.strong ? flags.batch / ranks : flags.batch),
                                    "--repeat", fmt::to_string(flags.repeat)};
  if (flags.emulated_images_per_s > 0) {
    words.emplace_back("--emulate-accelerator");
    words.push_back(fmt::format("{}", flags.emulated_images_per_s));
  }
  // The same number at every size, or one rank alone would get more than its share.
  if (flags.hosts.empty() && !has_flag(flags, "--threads")) {
    words.emplace_back("--threads");
    words.push_back(fmt::to_string(std::max(1, cores() / std::ranges::max(flags.ranks))));
  }
  words.insert(words.end(), flags.train.begin(), flags.train.end());
  return words;
}

Result<Scaling> measure(const ScaleFlags& flags) {
  Scaling scaling = {.kind = flags.strong ? ScalingKind::kStrong : ScalingKind::kWeak, .cores = cores(), .points = {}};
  std::vector<int> sizes = flags.ranks;
  std::ranges::sort(sizes);
  for (const int ranks : sizes)
    for (const int hosts : flags.pretended_hosts) {
      if (hosts > ranks) continue;
      if (::isatty(STDERR_FILENO) == 1) fmt::print(stderr, "{} ranks ...\n", ranks);
      TrainChildOptions options = {.ranks = ranks, .hosts = flags.hosts, .flags = train_words(flags, ranks)};
      if (hosts > 1) options.variables["XOE_PRETEND_HOSTS"] = fmt::to_string(hosts);
      XOE_ASSIGN(auto child, TrainChild::start(options));
      XOE_ASSIGN(auto result, child.finish());
      scaling.points.push_back({.ranks = ranks, .pretended_hosts = hosts, .result = std::move(result)});
    }
  if (scaling.points.empty())
    return failure(Code::kInvalidArgument, "{}", "--pretended-hosts: there are more hosts than ranks at every size");
  return scaling;
}

Status scale(const ScaleFlags& flags) {
  XOE_TRY(check(flags));
  XOE_ASSIGN(const Scaling scaling, measure(flags));
  const ScalingReport report = report_scaling(scaling, flags.seed);
  return put_out(flags.out, scaling_text(scaling, report), to_json(scaling, report),
                 [&] { return scaling_page(scaling, report); });
}

}  // namespace

void add_scale(CLI::App& app, char** /*argv*/, int& code) {
  const auto flags = std::make_shared<ScaleFlags>();
  auto* verb = app.add_subcommand("scale", "training at several numbers of ranks: speed-up, efficiency, larger sizes");
  verb->footer(kScaleExamples);
  verb->add_option("FLAGS", flags->train, "of `xoe bench train`, after --");
  verb->option_defaults()->group("Sizes");
  tools::add_list(*verb, "--ranks", flags->ranks, "numbers of ranks")
      ->check(CLI::Range(1, 4096))
      ->type_name("N,...")
      ->default_str("1,2,4");
  tools::add_list(*verb, "--pretended-hosts", flags->pretended_hosts, "hosts that the ranks of this machine emulate")
      ->check(CLI::Range(1, 4096))
      ->type_name("N,...")
      ->default_str("1");
  verb->add_option("-H,--hosts", flags->hosts, "hosts and their slots, as `xoe run -H` takes them")
      ->type_name("A:4,B:4");
  verb->option_defaults()->group("Workload");
  verb->add_flag("--strong", flags->strong, "all ranks together have the batch (default: each rank has)");
  tools::add_setting(*verb, "--batch-size", flags->batch, "images a step")->check(CLI::PositiveNumber);
  tools::add_number(*verb, "--repeat", flags->repeat, 1, 1000, "runs at each size");
  verb->add_option("--emulate-accelerator", flags->emulated_images_per_s, "as of `xoe bench train`")
      ->check(CLI::Range(0.01, 1e9))
      ->type_name("IMAGES_PER_S");
  add_output(*verb, flags->out);
  tools::add_setting(*verb, "--seed", flags->seed, "of the bootstrap");
  verb->callback([flags, &code] {
    if (const Status done = scale(*flags); !done) code = failed("scale", done.error());
  });
}

}  // namespace xoe::bench
