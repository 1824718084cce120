// xoe bench predict: speeds of more ranks than there are.
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/command_line/parse/command_line.h"
#include "measure/cli/output_flags.h"
#include "measure/cli/simulate.h"
#include "measure/cli/text_table.h"
#include "measure/cli/verbs/verbs.h"
#include "measure/pages/result_page.h"

namespace xoe::bench {
namespace {

constexpr const char* kPredictExamples = R"(
Examples:
  xoe bench train --model resnet50 --batch-size 32 --repeat 5 --output train.json
  xoe run -H nodeA,nodeB xoe bench collectives -b 8 -e 128M -f 8 --output net.json
  xoe bench predict train.json --network net.json --ranks-per-host 4
  xoe bench predict train.json --latency 20 --bandwidth 12.5 --html predicted.html)";

struct PredictFlags {
  std::string result, network, local;
  double latency_us = 0, bandwidth = 0;
  std::vector<int> ranks;
  SimulationOptions options;
  OutputFlags out;
};

struct PredictedSizes {
  TrainResult result;
  std::vector<SimulatedSize> sizes;
  std::vector<std::string> notes;
};

const TableRow kPredictHead = {"ranks", "hosts", "images/s", "95 % interval", "efficiency", "exposed ms"};

std::vector<TableRow> predicted_rows(const PredictedSizes& predicted) {
  std::vector<TableRow> rows;
  for (const SimulatedSize& size : predicted.sizes)
    rows.push_back({fmt::to_string(size.ranks), fmt::to_string(size.hosts), fmt::format("{:.1f}", size.images_per_s),
                    fmt::format("{:.1f} to {:.1f}", size.interval.low, size.interval.high),
                    fmt::format("{:.1f} %", size.efficiency * 100), fmt::format("{:.3f}", size.exposed_ms)});
  return rows;
}

std::string title_of(const PredictedSizes& predicted) {
  return fmt::format("{}, batch {} a rank: simulated from measured constants", predicted.result.model,
                     predicted.result.batch * predicted.result.accumulate);
}

std::string text_of(const PredictedSizes& predicted) {
  std::string text = title_of(predicted) + "\n" + text_table(kPredictHead, predicted_rows(predicted));
  for (const std::string& note : predicted.notes) text += fmt::format("note: {}\n", note);
  return text;
}

nlohmann::ordered_json to_json(const PredictedSizes& predicted) {
  nlohmann::ordered_json sizes = nlohmann::ordered_json::array();
  for (const SimulatedSize& size : predicted.sizes)
    sizes.push_back({{"ranks", size.ranks},
                     {"hosts", size.hosts},
                     {"images_per_s", size.images_per_s},
                     {"low", size.interval.low},
                     {"high", size.interval.high},
                     {"efficiency", size.efficiency},
                     {"exposed_ms", size.exposed_ms}});
  return {{"benchmark", "xoe bench predict"},
          {"simulated", true},
          {"model", predicted.result.model},
          {"emulated_images_per_s", predicted.result.emulated_images_per_s},
          {"sizes", sizes},
          {"notes", predicted.notes}};
}

std::string page_of(const PredictedSizes& predicted) {
  std::vector<PlotPoint> efficiencies;
  std::vector<std::vector<PlotPoint>> intervals;
  for (const SimulatedSize& size : predicted.sizes) {
    const double x = std::log2(size.ranks);
    efficiencies.push_back({x, size.efficiency});
    const double scale = size.efficiency / size.images_per_s;
    intervals.push_back({{x, size.interval.low * scale}, {x, size.interval.high * scale}});
  }
  pages::PlotFigure figure = {.id = "efficiency",
                              .title = "efficiency",
                              .lines = {{.label = "simulated", .color = "first", .points = efficiencies, .dots = true}},
                              .unit = PlotUnit::kShare,
                              .axis = {.label = "ranks", .powers_of_two = true}};
  for (const auto& interval : intervals)
    figure.lines.push_back(
        {.label = &interval == &intervals.front() ? "95 % interval" : "", .color = "second", .points = interval});
  return pages::result_html(
      {.title = title_of(predicted),
       .notes = predicted.notes,
       .plots = {std::move(figure)},
       .x = {.low = 0, .high = std::max(1.0, efficiencies.back().x)},
       .tables = {{.title = "Simulated", .head = kPredictHead, .rows = predicted_rows(predicted)}},
       .facts = {{"Environment of the measurement", pages::facts_of_json(predicted.result.environment)}}});
}

Result<MeasuredFabric> network_of(const PredictFlags& flags) {
  if (!flags.network.empty()) return read_fabric(flags.network, Fabric::kLinks);
  if (flags.latency_us > 0 && flags.bandwidth > 0) return fabric_of(flags.latency_us * 1e-6, flags.bandwidth * 1e9);
  return failure(
      Code::kInvalidArgument, "{}",
      "say how fast the network is: --network FILE of `xoe bench collectives`, or --latency and --bandwidth");
}

Result<PredictedSizes> predict_sizes(const PredictFlags& flags) {
  PredictedSizes predicted;
  XOE_ASSIGN(const MeasuredFabric network, network_of(flags));
  XOE_ASSIGN(predicted.result, read_train_result(flags.result));
  if (predicted.result.mode != "training")
    return failure(Code::kInvalidArgument, "{}: this is a result of {}, which reduces nothing", flags.result,
                   predicted.result.mode);
  MeasuredFabric local{.points = {}, .fabric = Fabric::kMemory};
  if (!flags.local.empty()) {
    XOE_ASSIGN(local, read_fabric(flags.local, Fabric::kMemory));
  } else if (flags.options.ranks_per_host > 1) {
    predicted.notes.emplace_back("reductions within a host are taken to be free; measure them for --local");
  }
  predicted.notes.emplace_back("SIMULATED: no rank of these sizes ran");
  if (predicted.result.emulated_images_per_s > 0)
    predicted.notes.push_back(fmt::format("EMULATION: computing is that of an accelerator of {:g} images/s",
                                          predicted.result.emulated_images_per_s));
  if (predicted.result.ranks > 1)
    predicted.notes.push_back(
        fmt::format("computing was measured on {} ranks, which may have slowed each other", predicted.result.ranks));
  const StepProfile profile = profile_of(predicted.result);
  std::vector<int> sizes = flags.ranks;
  if (sizes.empty())
    for (int ranks = 1; ranks <= 16384; ranks *= 2) sizes.push_back(ranks);
  std::ranges::sort(sizes);
  for (const int ranks : sizes) predicted.sizes.push_back(simulate(profile, network, local, ranks, flags.options));
  return predicted;
}

Status predict_and_tell(const PredictFlags& flags) {
  XOE_ASSIGN(const PredictedSizes predicted, predict_sizes(flags));
  return put_out(flags.out, text_of(predicted), to_json(predicted), [&] { return page_of(predicted); });
}

}  // namespace

void add_predict(CLI::App& app, char** /*argv*/, int& code) {
  const auto flags = std::make_shared<PredictFlags>();
  auto* verb = app.add_subcommand("predict", "speeds of up to 16384 ranks, simulated from measured constants");
  verb->footer(kPredictExamples);
  verb->add_option("RESULT", flags->result, "of `xoe bench train --output`, best of one rank")->required();
  verb->option_defaults()->group("Fabric");
  verb->add_option("--network", flags->network, "between hosts: of `xoe bench collectives --output`, or nccl-tests")
      ->type_name("FILE");
  verb->add_option("--latency", flags->latency_us, "in place of --network: of a message between hosts")
      ->check(CLI::Range(1e-3, 1e9))
      ->type_name("US");
  verb->add_option("--bandwidth", flags->bandwidth, "of a host's link")
      ->check(CLI::Range(1e-6, 1e9))
      ->type_name("GB/S");
  verb->add_option("--local", flags->local, "the same as --network within a host")->type_name("FILE");
  verb->option_defaults()->group("Sizes");
  tools::add_list(*verb, "--ranks", flags->ranks, "(default: powers of 2 up to 16384)")
      ->check(CLI::Range(1, kMostRanks))
      ->type_name("N,...");
  tools::add_number(*verb, "--ranks-per-host", flags->options.ranks_per_host, 1, 4096, "");
  verb->option_defaults()->group("Simulation");
  tools::add_number(*verb, "--draws", flags->options.draws, 10, 10000, "of the constants");
  tools::add_number(*verb, "--steps", flags->options.steps, 1, 1000, "of each draw");
  tools::add_setting(*verb, "--seed", flags->options.seed, "");
  add_output(*verb, flags->out);
  verb->callback([flags, &code] {
    if (const Status done = predict_and_tell(*flags); !done) code = failed("predict", done.error());
  });
}

}  // namespace xoe::bench
