// The plot of `xoe data compare`.
#pragma once

#include <span>
#include <string>

#include "tools/data/verbs/compare.h"

namespace xoe::tools {

// Images/s and idle share over the number of ranks, as an SVG document.
std::string compare_svg(std::span<const WayResult> figures, double step_ms, int batch);

}  // namespace xoe::tools
