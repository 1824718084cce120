#include "measure/cli/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "measure/cli/text_table.h"
#include "measure/cli/train_page.h"
#include "measure/pages/result_page.h"

namespace xoe::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kConstants = 3;  // of the model
constexpr int kPredictedSizes = 4;     // each twice the one before

bool emulated(const ScalePoint& point) { return point.result.emulated_images_per_s > 0; }

int real_hosts(const ScalePoint& point) { return point.pretended_hosts > 1 ? 1 : point.result.hosts; }

std::int64_t images_of(const TrainResult& result) {
  return std::int64_t{result.batch} * result.accumulate * result.ranks;
}

CostPoint cost_point(const Scaling& scaling, const ScalePoint& point, int ranks, double images_per_rank) {
  const TrainResult& first = scaling.points.front().result;
  const TrainResult& result = point.result;
  const double shared = [&] {
    if (result.emulated_images_per_s > 0) return 1.0;  // sleeping takes no core
    const auto waiting = [&](double per_host) { return std::max(1.0, per_host * result.threads / scaling.cores); };
    return waiting(static_cast<double>(ranks) / real_hosts(point)) /
           waiting(static_cast<double>(first.ranks) / real_hosts(scaling.points.front()));
  }();
  return {.ranks = ranks,
          .work = shared * images_per_rank / (static_cast<double>(images_of(first)) / first.ranks),
          .bytes = static_cast<double>(result.reduced_step_bytes),
          .rounds = static_cast<double>(std::max(1, result.buckets)),
          .seconds = {}};
}

CostPoint measured_point(const Scaling& scaling, const ScalePoint& point) {
  const TrainResult& result = point.result;
  CostPoint cost = cost_point(scaling, point, point.ranks, static_cast<double>(images_of(result)) / point.ranks);
  cost.seconds.reserve(result.repeats.size());
  for (const double speed : result.speeds()) cost.seconds.push_back(static_cast<double>(images_of(result)) / speed);
  return cost;
}

double efficiency_of(const ScaleRow& first, double speed, int ranks) {
  return speed / first.speed.mean * first.ranks / ranks;
}

void add_model(const Scaling& scaling, std::uint64_t seed, ScalingReport& report) {
  std::vector<CostPoint> measured;
  const ScalePoint* largest = nullptr;
  for (const ScalePoint& point : scaling.points) {
    if (point.pretended_hosts != scaling.points.front().pretended_hosts) continue;
    measured.push_back(measured_point(scaling, point));
    largest = &point;
  }
  const TrainResult& last = largest->result;
  report.fabric = real_hosts(*largest) > 1 ? Fabric::kLinks : Fabric::kMemory;
  std::vector<int> sizes;  // ascending
  sizes.reserve(measured.size());
  for (const CostPoint& point : measured) sizes.push_back(point.ranks);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.size() < kConstants) {
    report.notes.push_back(
        fmt::format("a cost model needs {} numbers of ranks, and there are {}", kConstants, sizes.size()));
    return;
  }
  report.model = fit_cost(measured, report.fabric);
  for (const CostPoint& point : measured) {
    const double mean = spread_of(point.seconds).mean;
    report.worst_error =
        std::max(report.worst_error, std::abs(predict_seconds(report.model, report.fabric, point) / mean - 1));
  }
  std::vector<CostPoint> unmeasured;
  for (int i = 1; i <= kPredictedSizes; ++i) {
    const int ranks = sizes.back() << i;
    const double images =
        static_cast<double>(images_of(last)) / (scaling.kind == ScalingKind::kWeak ? last.ranks : ranks);
    unmeasured.push_back(cost_point(scaling, *largest, ranks, images));
  }
  const auto predictions = predict(measured, unmeasured, report.fabric, seed);
  for (std::size_t i = 0; i < unmeasured.size(); ++i) {
    const int ranks = unmeasured[i].ranks;
    const double images = scaling.kind == ScalingKind::kWeak ? static_cast<double>(images_of(last)) / last.ranks * ranks
                                                             : static_cast<double>(images_of(last));
    const double speed = images / predictions[i].seconds;
    report.predicted.push_back(
        {.ranks = ranks,
         .images_per_s = speed,
         .interval = {.low = images / predictions[i].interval.high, .high = images / predictions[i].interval.low},
         .efficiency = efficiency_of(report.rows.front(), speed, ranks)});
  }
}

void add_notes(const Scaling& scaling, ScalingReport& report) {
  const ScalePoint& last = scaling.points.back();
  if (emulated(last)) {
    report.notes.push_back(
        fmt::format("EMULATION: ranks sleep as an accelerator of {:g} images/s would compute; communication is real",
                    last.result.emulated_images_per_s));
  } else if (last.ranks / real_hosts(last) * last.result.threads > scaling.cores) {
    report.notes.push_back(fmt::format("{} of {} shared {}: their computing is slower for that alone",
                                       counted(last.ranks / real_hosts(last), "rank"),
                                       counted(last.result.threads, "thread"), counted(scaling.cores, "core")));
  }
  if (std::ranges::any_of(scaling.points, [](const ScalePoint& one) { return one.pretended_hosts > 1; }))
    report.notes.emplace_back(
        "pretended hosts agree on the order of tensors as hosts do, but move data through this host's memory");
}

std::string bandwidth_text(double seconds_per_byte) {
  return seconds_per_byte > 0 ? fmt::format("{:.2f} GB/s", 1e-9 / seconds_per_byte) : "too fast to be seen";
}

std::string model_text(const ScalingReport& report) {
  return fmt::format(
      "A step computes for {:.3f} ms; bandwidth {} {}; latency {:.1f} us a round. At measured sizes the model is off "
      "by at "
      "most {:.1f} %.",
      report.model.compute * 1e3, bandwidth_text(report.model.seconds_per_byte),
      report.fabric == Fabric::kMemory ? "through the memory that the ranks share" : "of each link",
      report.model.latency * 1e6, report.worst_error * 100);
}

const TableRow kScaleHead = {"ranks", "hosts", "images/s", "95 % interval", "speed-up", "efficiency", "exposed ms"};
const TableRow kPredictedHead = {"ranks", "predicted images/s", "95 % interval", "efficiency"};

std::string interval_text(const Interval& interval) {
  return fmt::format("{:.1f} to {:.1f}", interval.low, interval.high);
}

std::vector<TableRow> measured_rows(const ScalingReport& report) {
  std::vector<TableRow> rows;
  for (const ScaleRow& row : report.rows)
    rows.push_back({fmt::to_string(row.ranks), fmt::to_string(row.hosts), fmt::format("{:.2f}", row.speed.mean),
                    row.speed.count > 1 ? interval_text(row.speed.confidence) : "one run",
                    fmt::format("{:.3f}", row.speed_up), fmt::format("{:.1f} %", row.efficiency * 100),
                    fmt::format("{:.3f}", row.exposed_ms)});
  return rows;
}

std::vector<TableRow> predicted_rows(const ScalingReport& report) {
  std::vector<TableRow> rows;
  for (const PredictedRow& row : report.predicted)
    rows.push_back({fmt::to_string(row.ranks), fmt::format("{:.2f}", row.images_per_s), interval_text(row.interval),
                    fmt::format("{:.1f} %", row.efficiency * 100)});
  return rows;
}

std::string title_of(const Scaling& scaling) {
  const TrainResult& first = scaling.points.front().result;
  return fmt::format("{} scaling of {}, batch {}", scaling_name(scaling.kind), first.model,
                     scaling.kind == ScalingKind::kWeak ? fmt::format("{} a rank", first.batch * first.accumulate)
                                                        : fmt::format("{} in all", images_of(first)));
}

}  // namespace

std::string_view scaling_name(ScalingKind kind) noexcept { return kind == ScalingKind::kWeak ? "weak" : "strong"; }

ScalingReport report_scaling(const Scaling& scaling, std::uint64_t seed) {
  ScalingReport report;
  for (const ScalePoint& point : scaling.points) {
    ScaleRow row = {.ranks = point.ranks,
                    .hosts = std::max(point.pretended_hosts, point.result.hosts),
                    .speed = spread_of(point.result.speeds()),
                    .exposed_ms = point.result.parts.exposed};
    const ScaleRow& first = report.rows.empty() ? row : report.rows.front();
    row.speed_up = row.speed.mean / first.speed.mean;
    row.efficiency = efficiency_of(first, row.speed.mean, row.ranks);
    report.rows.push_back(row);
  }
  add_notes(scaling, report);
  add_model(scaling, seed, report);
  return report;
}

std::string scaling_text(const Scaling& scaling, const ScalingReport& report) {
  std::string text = title_of(scaling) + "\n" + text_table(kScaleHead, measured_rows(report));
  if (!report.predicted.empty())
    text += "\n" + model_text(report) + "\n" + text_table(kPredictedHead, predicted_rows(report));
  for (const std::string& note : report.notes) text += fmt::format("note: {}\n", note);
  return text;
}

Json to_json(const Scaling& scaling, const ScalingReport& report) {
  Json rows = Json::array(), predicted = Json::array();
  for (std::size_t i = 0; i < report.rows.size(); ++i) {
    const ScaleRow& row = report.rows[i];
    rows.push_back({{"ranks", row.ranks},
                    {"hosts", row.hosts},
                    {"pretended_hosts", scaling.points[i].pretended_hosts},
                    {"images_per_s", row.speed.mean},
                    {"low", row.speed.confidence.low},
                    {"high", row.speed.confidence.high},
                    {"speed_up", row.speed_up},
                    {"efficiency", row.efficiency},
                    {"exposed_ms", row.exposed_ms},
                    {"result", to_json(scaling.points[i].result)}});
  }
  for (const PredictedRow& row : report.predicted)
    predicted.push_back({{"ranks", row.ranks},
                         {"images_per_s", row.images_per_s},
                         {"low", row.interval.low},
                         {"high", row.interval.high},
                         {"efficiency", row.efficiency}});
  return {{"benchmark", "xoe bench scale"},
          {"scaling", scaling_name(scaling.kind)},
          {"emulated_images_per_s", scaling.points.front().result.emulated_images_per_s},
          {"sizes", rows},
          {"model",
           {{"fabric", report.fabric == Fabric::kMemory ? "memory" : "links"},
            {"compute_seconds", report.model.compute},
            {"seconds_per_byte", report.model.seconds_per_byte},
            {"latency_seconds", report.model.latency},
            {"worst_error", report.worst_error}}},
          {"predicted", predicted},
          {"notes", report.notes}};
}

std::string scaling_page(const Scaling& scaling, const ScalingReport& report) {
  std::vector<PlotPoint> speeds, efficiencies, predicted_speeds, predicted_efficiencies;
  for (const ScaleRow& row : report.rows) {
    speeds.push_back({static_cast<double>(row.ranks), row.speed.mean});
    efficiencies.push_back({static_cast<double>(row.ranks), row.efficiency});
  }
  if (!report.predicted.empty()) {
    predicted_speeds.push_back(speeds.back());
    predicted_efficiencies.push_back(efficiencies.back());
  }
  for (const PredictedRow& row : report.predicted) {
    predicted_speeds.push_back({static_cast<double>(row.ranks), row.images_per_s});
    predicted_efficiencies.push_back({static_cast<double>(row.ranks), row.efficiency});
  }
  const ScaleRow& last = report.rows.back();
  const double most = report.predicted.empty() ? last.ranks : report.predicted.back().ranks;
  pages::ResultPage page = {
      .title = title_of(scaling),
      .notes = report.notes,
      .figures = {{fmt::format("{:.1f}", last.speed.mean), fmt::format("images/s of {}", counted(last.ranks, "rank"))},
                  {fmt::format("{:.1f} %", last.efficiency * 100), "efficiency there"}},
      .plots = {{.id = "speed",
                 .title = "images/s",
                 .lines = {{.label = "measured", .color = "first", .points = speeds, .dots = true},
                           {.label = "predicted", .color = "second", .points = predicted_speeds}},
                 .axis = {.label = "ranks"}},
                {.id = "efficiency",
                 .title = "efficiency",
                 .lines = {{.label = "measured", .color = "first", .points = efficiencies, .dots = true},
                           {.label = "predicted", .color = "second", .points = predicted_efficiencies}},
                 .unit = PlotUnit::kShare,
                 .axis = {.label = "ranks"}}},
      .x = {.low = 0, .high = std::max(2.0, most)},
      .tables = {{.title = "Measured", .head = kScaleHead, .rows = measured_rows(report)},
                 {.title = "Predicted",
                  .text = report.predicted.empty() ? "" : model_text(report),
                  .head = kPredictedHead,
                  .rows = predicted_rows(report)}},
      .facts = {{"Environment", pages::facts_of_json(scaling.points.front().result.environment)}}};
  for (const ScalePoint& point : scaling.points)
    page.shares.emplace_back(fmt::format("{}, {}", counted(point.ranks, "rank"),
                                         counted(std::max(point.pretended_hosts, point.result.hosts), "host")),
                             step_shares(point.result));
  page.shares_text = "Of a mean step.";
  return pages::result_html(page);
}

}  // namespace xoe::bench
