// A stretch of a timeline as a picture: a row for each lane of each rank, and thin rows for spans, which may overlap.
#pragma once

#include <string>
#include <string_view>

#include "measure/pages/timeline_figure.h"

namespace xoe::pages {

struct Stretch {
  double from_s = 0;        // after the first event
  double length_ms = 1000;  // or to the end of the last event
};

// Draws it as SVG. `invalid_argument`: the timeline ends before the stretch.
Result<std::string> timeline_svg(const Timeline& timeline, const Stretch& stretch, std::string_view title);

}  // namespace xoe::pages
