#include "measure/pages/scores.h"

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/machine.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "core/base/text_file.h"

namespace xoe::pages {
namespace {

using nlohmann::json;

constexpr std::size_t kMostLabels = 1000;
constexpr double kSignificant = 0.001;  // of one label's test; with 14 labels one false find in seventy runs

struct Scores {
  std::vector<std::string> images;
  std::vector<std::string> targets;          // for each label: '0' and '1', one an image
  std::vector<std::vector<double>> columns;  // for each label
};

Error not_of_format(const std::string& path, std::string_view what) {
  return {Code::kDataLoss, fmt::format("{}: {}; docs/formats/scores.md has the format", path, what)};
}

Result<std::string> read_named(const std::string& path) {
  auto text = read_text_file(path);
  if (!text) return failure(Code::kUnavailable, "{}: {}", path, text.error().message());
  return text;
}

// Throws json::exception.
Result<Scores> scores_of(const json& file, const std::string& path, std::size_t labels) {
  Scores scores{.images = file.at("images").get<std::vector<std::string>>(),
                .targets = file.at("targets").get<std::vector<std::string>>(),
                .columns = file.at("scores").get<std::vector<std::vector<double>>>()};
  if (labels == 0 || labels > kMostLabels || scores.targets.size() != labels || scores.columns.size() != labels)
    return failure(not_of_format(path, fmt::format("{} labels, {} columns of targets, {} of scores", labels,
                                                   scores.targets.size(), scores.columns.size())));
  for (std::size_t k = 0; k < labels; ++k) {
    if (scores.targets[k].size() != scores.images.size() || scores.columns[k].size() != scores.images.size())
      return failure(
          not_of_format(path, fmt::format("label {}: {} targets and {} scores of {} images", k,
                                          scores.targets[k].size(), scores.columns[k].size(), scores.images.size())));
    if (scores.targets[k].find_first_not_of("01") != std::string::npos)
      return failure(not_of_format(path, fmt::format("label {}: a target that is neither 0 nor 1", k)));
  }
  return scores;
}

std::vector<std::uint8_t> positives_of(const std::string& targets) {
  std::vector<std::uint8_t> positive;
  for (const char one : targets) positive.push_back(one == '1' ? 1 : 0);
  return positive;
}

// The ideal observer's scores, by label and image, in the order of `images`; empty where a label or an image is not in
// the table.
Result<std::unordered_map<std::string, std::vector<double>>> read_ideal_scores(const std::string& path,
                                                                               const std::vector<std::string>& images) {
  XOE_ASSIGN(const std::string text, read_named(path));
  std::unordered_map<std::string, std::vector<std::string>> rows;
  std::vector<std::string> head;
  for (const std::string& line : split_text(text, '\n')) {
    if (line.empty()) continue;
    std::vector<std::string> fields = split_text(line, ',');
    if (head.empty()) {
      head = std::move(fields);
      continue;
    }
    if (fields.size() != head.size())
      return failure(Code::kDataLoss, "{}: {} has {} columns, not {}", path, fields[0], fields.size(), head.size());
    std::string name = fields[0];
    rows.emplace(std::move(name), std::move(fields));
  }
  std::unordered_map<std::string, std::vector<double>> columns;
  for (std::size_t k = 1; k < head.size(); ++k) {
    std::vector<double>& column = columns[head[k]];
    for (const std::string& image : images) {
      const auto row = rows.find(image);
      if (row == rows.end()) return std::unordered_map<std::string, std::vector<double>>();
      const auto number = parse_number(row->second[k]);
      if (!number) return failure(Code::kDataLoss, "{}: {}: {} is no number", path, image, row->second[k]);
      column.push_back(*number);
    }
  }
  return columns;
}

Status add_ideal(ScoresRecord& record, const Scores& scores, const std::string& folder) {
  const auto text = read_text_file(folder + "/phantoms.json");
  if (!text) return {};  // other data
  record.phantoms = true;
  const json phantoms = json::parse(*text, nullptr, false);
  try {
    for (const json& one : phantoms.at("labels"))
      for (LabelQuality& label : record.labels)
        if (label.label == one.at("label").get<std::string>())
          label.ideal = IdealQuality{.auroc = one.at("ideal_auroc"), .error = one.at("monte_carlo_error")};
  } catch (const json::exception& error) {
    return failure(Code::kDataLoss, "{}/phantoms.json: {}", folder, error.what());
  }
  const std::string table = folder + "/ideal_scores.csv";
  if (!read_start(table, 1)) return {};
  XOE_ASSIGN(auto columns, read_ideal_scores(table, scores.images));
  for (std::size_t k = 0; k < record.labels.size(); ++k) {
    LabelQuality& label = record.labels[k];
    const auto column = columns.find(label.label);
    if (!label.ideal || !label.auroc || column == columns.end()) continue;
    const auto positive = positives_of(scores.targets[k]);
    XOE_ASSIGN(label.ideal->on_images, stats::auroc(column->second, positive));
    XOE_ASSIGN(label.ideal->excess, stats::compare_auroc(scores.columns[k], column->second, positive));
  }
  return {};
}

Status add_quality(ScoresRecord& record, const Scores& scores, const std::string& path) {
  const std::size_t labels = record.labels.size();
  std::vector<double> rows;
  std::vector<float> targets;
  for (std::size_t i = 0; i < scores.images.size(); ++i)
    for (std::size_t k = 0; k < labels; ++k) {
      rows.push_back(scores.columns[k][i]);
      targets.push_back(scores.targets[k][i] == '1' ? 1 : 0);
    }
  auto found = stats::auroc_of_labels(rows, targets, labels);
  if (!found) return failure(found.error().code(), "{}: {}", path, found.error().message());
  record.mean = found->mean;
  record.interval = found->interval();
  for (std::size_t k = 0; k < labels; ++k) {
    LabelQuality& label = record.labels[k];
    label.auroc = std::move(found->labels[k]);
    if (!label.auroc) continue;
    XOE_ASSIGN(label.curve, stats::roc_curve(scores.columns[k], positives_of(scores.targets[k])));
  }
  return {};
}

// `ideal` gives the AUROC to compare with, if there is one.
template <class Ideal>
std::optional<double> share(const std::vector<LabelQuality>& labels, const Ideal& ideal) {
  double reached = 0;
  double reachable = 0;
  for (const LabelQuality& label : labels) {
    if (!label.auroc || !label.ideal) continue;
    const std::optional<double> best = ideal(*label.ideal);
    if (!best) return std::nullopt;
    reached += label.auroc->value - 0.5;
    reachable += *best - 0.5;
  }
  return reachable > 0 ? std::optional(reached / reachable) : std::nullopt;
}

}  // namespace

bool IdealQuality::exceeded_by(const stats::Auroc& network) const {
  const stats::AurocDifference more =
      excess ? *excess : stats::AurocDifference{network.value - auroc, network.variance + error * error};
  return more.value > 0 && more.p_value() / 2 < kSignificant;
}

std::optional<double> ScoresRecord::share_of_ideal() const {
  return share(labels, [](const IdealQuality& ideal) { return std::optional(ideal.auroc); });
}

std::optional<double> ScoresRecord::share_of_ideal_on_images() const {
  return share(labels, [](const IdealQuality& ideal) {
    return ideal.on_images ? std::optional(ideal.on_images->value) : std::nullopt;
  });
}

std::vector<std::string> ScoresRecord::exceeding() const {
  std::vector<std::string> found;
  for (const LabelQuality& label : labels)
    if (label.auroc && label.ideal && label.ideal->exceeded_by(*label.auroc)) found.push_back(label.label);
  return found;
}

Result<ScoresRecord> read_scores(const std::string& path, const std::string& folder) {
  XOE_ASSIGN(const std::string text, read_named(path));
  const json file = json::parse(text, nullptr, false);
  ScoresRecord record;
  try {
    if (!file.is_object() || file.at("format") != 1) return failure(not_of_format(path, "no file of scores"));
    record.title = file.at("title").get<std::string>();
    record.data = folder.empty() ? file.at("data").get<std::string>() : folder;
    record.split = file.at("split").get<std::string>();
    for (const auto& [name, value] : file.at("facts").items())
      record.facts.emplace_back(name, value.get<std::string>());
    for (const json& label : file.at("labels")) record.labels.push_back({.label = label.get<std::string>()});
    XOE_ASSIGN(const Scores scores, scores_of(file, path, record.labels.size()));
    record.images = std::ssize(scores.images);
    XOE_TRY(add_quality(record, scores, path));
    XOE_TRY(add_ideal(record, scores, record.data));
  } catch (const json::exception& error) {
    return failure(not_of_format(path, error.what()));
  }
  return record;
}

}  // namespace xoe::pages
