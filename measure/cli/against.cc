#include "measure/cli/against.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
#include "measure/cli/articles.h"
#include "measure/cli/text_table.h"
#include "measure/pages/result_page.h"

namespace xoe::bench {
namespace {

using Json = nlohmann::ordered_json;

const TableRow kRowsHead = {"measurement", "series", "ranks", "images/s", "per rank", "efficiency"};
const TableRow kPairsHead = {"yours", "theirs", "yours of theirs"};

bool is_speed(const Measurement& one) { return one.quantity == kSpeedQuantity && one.ranks > 0; }

void add_efficiencies(std::vector<AgainstRow>& rows) {
  std::map<std::string, const AgainstRow*> smallest;
  std::map<std::string, std::size_t> sizes;
  for (const AgainstRow& row : rows) {
    const AgainstRow*& least = smallest[row.measurement.series];
    if (least == nullptr || row.measurement.ranks < least->measurement.ranks) least = &row;
    ++sizes[row.measurement.series];
  }
  for (AgainstRow& row : rows)
    if (sizes[row.measurement.series] > 1) row.efficiency = row.per_rank / smallest[row.measurement.series]->per_rank;
}

AgainstRow row_of(const Measurement& one) {
  const double speed = spread_of(one.runs).mean;
  return {.measurement = one, .speed = speed, .per_rank = speed / one.ranks};
}

std::string model_of(const AgainstRow& row) {
  for (const auto& [name, value] : row.measurement.workload)
    if (name == "model") return value;
  return {};
}

// Of ours that have another model than all of theirs.
void add_model_notes(Against& against) {
  std::set<std::string> theirs, told;
  for (const AgainstRow& row : against.theirs) theirs.insert(model_of(row));
  for (const AgainstRow& row : against.ours)
    if (const std::string model = model_of(row); !model.empty() && !theirs.contains(model) && told.insert(model).second)
      against.notes.push_back(
          fmt::format("model differs: {} in {}, {} in theirs", model, row.measurement.name, fmt::join(theirs, ", ")));
}

std::string speed_text(const AgainstRow& row) {
  return fmt::format("{}{:.2f}", row.measurement.approximate ? "about " : "", row.speed);
}

std::vector<TableRow> table_of(const std::vector<AgainstRow>& rows) {
  std::vector<TableRow> table;
  table.reserve(rows.size());
  for (const AgainstRow& row : rows)
    table.push_back({row.measurement.name, row.measurement.series, fmt::to_string(row.measurement.ranks),
                     speed_text(row), fmt::format("{:.2f}", row.per_rank),
                     row.efficiency > 0 ? fmt::format("{:.1f} %", row.efficiency * 100) : std::string()});
  return table;
}

std::vector<TableRow> pairs_table(const Against& against) {
  std::vector<TableRow> table;
  for (const AgainstPair& pair : against.pairs)
    table.push_back({pair.ours, pair.theirs, fmt::format("{:.3g} %", pair.ratio * 100)});
  return table;
}

Json rows_json(const std::vector<AgainstRow>& rows) {
  Json json = Json::array();
  for (const AgainstRow& row : rows)
    json.push_back({{"name", row.measurement.name},
                    {"series", row.measurement.series},
                    {"ranks", row.measurement.ranks},
                    {"images_per_s", row.speed},
                    {"approximate", row.measurement.approximate},
                    {"efficiency", row.efficiency > 0 ? Json(row.efficiency) : Json(nullptr)}});
  return json;
}

// Points by series, those of the same ranks in a row.
struct PlottedSeries {
  std::string name;
  std::vector<PlotPoint> efficiency, per_rank;
};

std::vector<PlottedSeries> series_of(const Against& against) {
  std::vector<PlottedSeries> all;
  for (const auto* rows : {&against.ours, &against.theirs})
    for (const AgainstRow& row : *rows) {
      auto series = std::ranges::find(all, row.measurement.series, &PlottedSeries::name);
      if (series == all.end())
        series = all.insert(all.end(), {.name = row.measurement.series, .efficiency = {}, .per_rank = {}});
      const double ranks = row.measurement.ranks;
      series->per_rank.push_back({ranks, row.per_rank});
      if (row.efficiency > 0) series->efficiency.push_back({ranks, row.efficiency});
    }
  for (PlottedSeries& series : all)
    for (auto* points : {&series.efficiency, &series.per_rank}) std::ranges::sort(*points, {}, &PlotPoint::x);
  return all;
}

}  // namespace

Result<std::vector<MeasurementFile>> read_articles() {
  std::vector<MeasurementFile> files;
  for (const auto& [text, name] : {std::pair{kVirtualMachinesArticle, "virtual-machines.json"},
                                   std::pair{kKubernetesArticle, "kubernetes.json"}}) {
    XOE_ASSIGN(auto file, parse_measurements(text, name));
    files.push_back(std::move(file));
  }
  return files;
}

Result<Against> stand_against(const std::vector<Measurement>& ours, const std::vector<MeasurementFile>& theirs) {
  Against against;
  std::int64_t left_out = 0;
  for (const Measurement& one : ours) {
    if (!is_speed(one)) {
      ++left_out;
      continue;
    }
    against.ours.push_back(row_of(one));
    // Files of one name each are sizes of one series.
    if (one.series == one.name) against.ours.back().measurement.series = "yours";
    if (one.emulated_images_per_s > 0)
      against.notes.push_back(fmt::format("EMULATION: {} is of ranks that sleep in place of computing", one.name));
  }
  if (against.ours.empty())
    return failure(Code::kInvalidArgument, "{}", "none of these results is of images/s and a number of ranks");
  if (left_out > 0)
    against.notes.push_back(
        fmt::format("{} left out: no images/s of a number of ranks", counted(left_out, "measurement")));
  for (const MeasurementFile& file : theirs) {
    const std::size_t before = against.theirs.size();
    for (const Measurement& one : file.measurements)
      if (is_speed(one)) against.theirs.push_back(row_of(one));
    if (against.theirs.size() > before)
      against.notes.push_back(
          fmt::format("{} ({}, {}): other machines, other programs", file.title, file.date, file.source));
  }
  add_model_notes(against);
  add_efficiencies(against.ours);
  add_efficiencies(against.theirs);
  for (const AgainstRow& one : against.ours)
    for (const AgainstRow& other : against.theirs)
      if (one.measurement.ranks == other.measurement.ranks)
        against.pairs.push_back(
            {.ours = one.measurement.name, .theirs = other.measurement.name, .ratio = one.speed / other.speed});
  return against;
}

std::string against_text(const Against& against) {
  std::string text =
      text_table(kRowsHead, table_of(against.ours)) + '\n' + text_table(kRowsHead, table_of(against.theirs));
  if (!against.pairs.empty()) text += '\n' + text_table(kPairsHead, pairs_table(against));
  for (const std::string& note : against.notes) text += fmt::format("note: {}\n", note);
  return text;
}

Json to_json(const Against& against) {
  Json pairs = Json::array();
  for (const AgainstPair& pair : against.pairs)
    pairs.push_back({{"ours", pair.ours}, {"theirs", pair.theirs}, {"ratio", pair.ratio}});
  return {{"benchmark", "xoe bench compare"},
          {"ours", rows_json(against.ours)},
          {"theirs", rows_json(against.theirs)},
          {"pairs", pairs},
          {"notes", against.notes}};
}

std::string against_page(const Against& against) {
  const std::vector<PlottedSeries> all = series_of(against);
  pages::PlotFigure efficiency = {.id = "efficiency",
                                  .title = "efficiency, of the series' smallest size",
                                  .unit = PlotUnit::kShare,
                                  .axis = {.label = "ranks"}};
  pages::PlotFigure per_rank = {.id = "per-rank", .title = "images/s of a rank", .axis = {.label = "ranks"}};
  double most = 2;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string_view color = pages::line_color(i);
    efficiency.lines.push_back({.label = all[i].name, .color = color, .points = all[i].efficiency, .dots = true});
    per_rank.lines.push_back({.label = all[i].name, .color = color, .points = all[i].per_rank, .dots = true});
    most = std::max(most, all[i].per_rank.back().x);
  }
  pages::ResultPage page = {
      .title = "Beside published measurements",
      .notes = against.notes,
      .plots = {std::move(efficiency), std::move(per_rank)},
      .x = {.low = 0, .high = most},
      .tables = {{.title = "Yours", .head = kRowsHead, .rows = table_of(against.ours)},
                 {.title = "Theirs", .head = kRowsHead, .rows = table_of(against.theirs)},
                 {.title = "Speeds of as many ranks", .head = kPairsHead, .rows = pairs_table(against)}}};
  std::vector<Measurement> ours;
  for (const AgainstRow& row : against.ours) ours.push_back(row.measurement);
  page.facts = environments_of(ours);
  return pages::result_html(page);
}

}  // namespace xoe::bench
