// The page of training runs.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "measure/pages/run_record.h"
#include "measure/pages/timeline_figure.h"

namespace xoe::pages {

inline constexpr std::size_t kMostRuns = 6;  // of one page: as many as have a colour

struct ReportedRun {
  std::string folder;
  RunRecord record;
  std::optional<Timeline> timeline = {};  // none: there is none
};

// One run as a whole, or several side by side. REQUIRES: 1 to kMostRuns.
std::string report_page(std::span<const ReportedRun> runs);

}  // namespace xoe::pages
