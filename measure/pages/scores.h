// The scores of a network on test images (docs/formats/scores.md), what they are worth, and their page.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measure/pages/run_record.h"
#include "xoe/stats.h"
#include "xoe/status.h"

namespace xoe::pages {

// What an ideal observer of phantoms reaches for a label; docs/formats/phantoms.md.
struct IdealQuality {
  double auroc = 0;
  double error = 0;                                   // of the Monte Carlo, a standard deviation
  std::optional<stats::Auroc> on_images = {};         // of its scores of the same images
  std::optional<stats::AurocDifference> excess = {};  // of the network over it, on the same images

  // Whether the network is better than can be: then something of the test images leaked into its training.
  bool exceeded_by(const stats::Auroc& network) const;
};

struct LabelQuality {
  std::string label;
  Result<stats::Auroc> auroc = stats::Auroc();  // an error where too few images have the label, or lack it
  std::vector<stats::RocPoint> curve = {};
  std::optional<IdealQuality> ideal = {};
};

struct ScoresRecord {
  std::string title;
  std::string data;   // folder
  std::string split;  // of which images
  Facts facts;
  std::int64_t images = 0;
  std::vector<LabelQuality> labels;
  double mean = 0;  // of the labels that have an AUROC
  stats::Interval interval;
  bool phantoms = false;

  // Of phantoms, over the labels that have an AUROC: mean(A - 1/2) / mean(I - 1/2), I being what the ideal observer
  // reaches in general, or on these images.
  std::optional<double> share_of_ideal() const;
  std::optional<double> share_of_ideal_on_images() const;
  std::vector<std::string> exceeding() const;  // labels whose ideal is exceeded
};

// folder: of the data set, where phantoms.json and ideal_scores.csv may be; empty: as the file says. `unavailable`: a
// file cannot be read; `data_loss`: it is none of its format, which the message tells with the place.
Result<ScoresRecord> read_scores(const std::string& path, const std::string& folder);

// AUROC of each label beside published figures, ROC curves, the ideal of phantoms.
std::string scores_page(const ScoresRecord& record);
// One line: "mean AUROC 0.8191 (0.8107 to 0.8275); ..."
std::string scores_summary(const ScoresRecord& record);

}  // namespace xoe::pages
