// Results of `xoe data compare`, and their plot.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace xoe::tools {

// The result of all ranks of one way together.
struct WayResult {
  std::string way;
  int ranks = 0;
  int threads = 0;  // of each
  double images_per_s = 0;
  double wanted = 0;      // images/s if no consumer waited
  double idle_share = 0;  // of the consumers' time, spent waiting
  double cpu_ms_per_image = 0;
  std::uint64_t memory = 0;
};

// Images/s and idle share over the number of ranks, as an SVG document.
std::string compare_svg(std::span<const WayResult> figures, double step_ms, int batch);

}  // namespace xoe::tools
