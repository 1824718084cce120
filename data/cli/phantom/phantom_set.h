// Writes phantoms in the layout of NIH ChestX-ray14, with the best AUROC that anybody can reach on them.
#pragma once

#include <string>
#include <vector>

#include "data/cli/synth/nih_layout.h"

namespace xoe::data::synth {

struct PhantomSetOptions : NihSetOptions {
  // The size is a multiple of kLeastSize up to 1024.
  PhantomSetOptions() : NihSetOptions{.images = 10000, .test = 3000, .size = 64} {}

  double wrong_labels = 0;  // share of the positive labels that are wrong; as many negative ones are
  int samples = 100000;     // of the Monte Carlo, with and without the lesion each
};

struct PhantomLabel {
  std::string finding;
  double contrast = 0;           // in deviations of the white noise
  double ideal_auroc = 0;        // against the labels of the table
  double monte_carlo_error = 0;  // standard deviation of that
};

struct PhantomSetReport {
  DataSetReport files;
  std::vector<PhantomLabel> labels;  // in the order of kChestFindings
  double mean_ideal_auroc = 0;
};

// As write_nih_layout(), and phantoms.json (docs/formats/phantoms.md) and ideal_scores.csv, the ideal observer's scores
// of the test images as they were written. Findings are independent of each other and as frequent as NIH published; an
// image shares nothing with others of its patient. The directory appears whole or not at all, and depends only on the
// options.
Result<PhantomSetReport> make_phantom_set(const PhantomSetOptions& options, const Progress& progress);

}  // namespace xoe::data::synth
