// The page of a training run.
#pragma once

#include <string>

#include "pages/run_record.h"
#include "pages/timeline_page.h"

namespace xoe::pages {

// timeline: null where there is none.
std::string report_page(const RunRecord& record, const std::string& folder, const Timeline* timeline);

}  // namespace xoe::pages
