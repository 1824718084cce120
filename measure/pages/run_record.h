// What a run folder of `xoe train --run-dir` tells: metrics.jsonl, environment.json, doctor.json, the timeline.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/base/plot.h"
#include "measure/pages/facts.h"
#include "xoe/status.h"

namespace xoe::pages {

struct DoctorFinding {
  std::string state;  // "ok", "note", "warning", "problem", "skipped"
  std::string group;
  std::string what;
  std::string fix;

  // 0 for a problem; more for what is less urgent.
  int weight() const;
};

struct RunCurves {
  std::vector<PlotPoint> loss, accuracy;  // of training images
  std::vector<PlotPoint> held_out_loss, held_out_accuracy;
  std::vector<PlotPoint> rate, images_per_s;

  auto all() { return std::array{&loss, &accuracy, &held_out_loss, &held_out_accuracy, &rate, &images_per_s}; }
  bool empty() const {
    return loss.empty() && accuracy.empty() && held_out_loss.empty() && held_out_accuracy.empty() && rate.empty() &&
           images_per_s.empty();
  }
};

struct RunRecord {
  std::string title;    // "resnet18, 2 ranks x batch 32"
  Facts configuration;  // of the last start
  Facts environment;
  std::vector<DoctorFinding> doctor;
  RunCurves curves;
  // For each rank: waiting for data, computing, reducing and waiting for peers, updating parameters; sums to 1.
  std::vector<std::array<double, 4>> rank_shares;

  bool ended = false;
  bool interrupted = false;
  std::optional<double> step, total_steps, seconds, images_per_s, images_per_s_uncertainty;
  std::string timeline;            // a file of the folder; empty: none
  std::vector<std::string> notes;  // what could not be read
};

inline constexpr std::size_t kMostRunBytes = std::size_t{256} << 20;

// `unavailable`: there is no metrics.jsonl, or it cannot be read. Lines that are broken are skipped and noted. `most`:
// bytes to read of a file; of a longer metrics.jsonl the first line and the newest ones.
Result<RunRecord> read_run(const std::string& folder, std::size_t most = kMostRunBytes);

}  // namespace xoe::pages
