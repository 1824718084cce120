#include "measure/cli/train_page.h"

#include <fmt/format.h>

#include "core/base/text.h"
#include "measure/pages/result_page.h"

namespace xoe::bench {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows run_rows(const TrainResult& result) {
  Rows rows;
  for (std::size_t i = 0; i < result.repeats.size(); ++i) {
    const TrainRepeat& run = result.repeats[i];
    rows.push_back({fmt::to_string(i + 1), fmt::format("{:.2f}", run.images_per_s),
                    fmt::format("{:.2f}", run.uncertainty), fmt::format("{:.2f}", run.jitter),
                    fmt::format("{:.3f}", run.step_ms), fmt::format("{:.4f}", run.loss),
                    run.accuracy < 0 ? std::string() : fmt::format("{:.2f} %", run.accuracy * 100)});
  }
  return rows;
}

Rows part_rows(const TrainResult& result) {
  Rows rows;
  for (const auto& [name, ms] : named_parts(result)) rows.push_back({name, fmt::format("{:.3f}", ms)});
  return rows;
}

pages::Facts configuration_of(const TrainResult& result) {
  return {{"data", result.data},
          {"image size", result.image_size},
          {"mode", result.mode},
          {"batch of a rank", fmt::to_string(result.batch)},
          {"passes of a step", fmt::to_string(result.accumulate)},
          {"measured steps of a run", fmt::to_string(result.num_batches)},
          {"steps before them", fmt::to_string(result.num_warmup_batches)},
          {"optimizer", result.optimizer},
          {"precision", result.precision},
          {"ranks", fmt::to_string(result.ranks)},
          {result.pretended_hosts ? "pretended hosts" : "hosts", fmt::to_string(result.hosts)},
          {"device", result.device},
          {"threads of a rank", fmt::to_string(result.threads)},
          {"backend", result.backend},
          {"buckets of gradients", fmt::to_string(result.buckets)},
          {"gradients reduced in a step", human_bytes(result.reduced_step_bytes)}};
}

}  // namespace

std::vector<pages::Share> step_shares(const TrainResult& result) {
  const StepParts& parts = result.parts;
  const double compute = parts.forward + parts.backward;
  const double all = parts.input + compute + parts.exposed + parts.optimizer + parts.rest;
  const double scale = all > 0 ? 1 / all : 0;
  return {{"compute", "computing", compute * scale},
          {"optimizer", "updating parameters", parts.optimizer * scale},
          {"input", "waiting for data", parts.input * scale},
          {"communication", "communicating, and waiting for others", parts.exposed * scale},
          {"rest", "the rest", parts.rest * scale}};
}

std::string train_page(const TrainResult& result, const pages::Timeline* timeline) {
  const Spread spread = spread_of(result.speeds());
  std::vector<PlotPoint> runs, mean;
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < result.repeats.size(); ++i) {
    runs.push_back({static_cast<double>(i + 1), result.repeats[i].images_per_s});
    mean.push_back({static_cast<double>(i + 1), spread.mean});
    numbers.push_back(fmt::to_string(i + 1));
  }
  double step_ms = 0;
  for (const TrainRepeat& run : result.repeats) step_ms += run.step_ms / static_cast<double>(result.repeats.size());
  pages::ResultPage page = {
      .title = fmt::format("{}: {} of {}, {}", result.model, result.mode, counted(result.ranks, "rank"), result.device),
      .subtitle = fmt::format("{:.2f} M parameters, batch {} a rank, images {}",
                              static_cast<double>(result.parameters) * 1e-6, result.batch, result.image_size),
      .figures = {{fmt::format("{:.2f}", spread.mean), "images/s of all ranks"},
                  {fmt::format("{:.3f} ms", step_ms), "a step"},
                  {human_bytes(result.peak_bytes), "of memory a rank, at most"}},
      .x = {.low = 0.5, .high = static_cast<double>(result.repeats.size()) + 0.5},
      .tables = {{.title = "Runs",
                  .head = {"run", "images/s", "+/-", "jitter", "ms a step", "loss", "accuracy"},
                  .rows = run_rows(result)},
                 {.title = "Parts of a step", .head = {"part", "ms"}, .rows = part_rows(result)}},
      .shares_text = "Of a mean step, mean of the ranks.",
      .shares = {{counted(result.ranks, "rank"), step_shares(result)}},
      .facts = {{"Configuration", configuration_of(result)},
                {"Environment", pages::facts_of_json(result.environment)}}};
  if (spread.count > 1) {
    page.figures.insert(page.figures.begin() + 1,
                        {fmt::format("{:.2f} to {:.2f}", spread.confidence.low, spread.confidence.high),
                         fmt::format("95 % interval of {} runs", spread.count)});
    page.plots = {{.id = "speed",
                   .title = "images/s",
                   .lines = {{.label = "a run", .color = "first", .points = runs, .joined = false},
                             {.label = "mean", .color = "second", .points = mean}},
                   .axis = {.label = "run", .names = numbers}}};
  }
  if (result.emulated_images_per_s > 0) page.notes.push_back(emulation_words(result));
  if (timeline != nullptr) page.timelines.emplace_back("Timeline of a further run", timeline);
  return pages::result_html(page);
}

}  // namespace xoe::bench
