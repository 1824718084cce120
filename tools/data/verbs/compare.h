// `xoe data compare`: the old and the new way of reading images, for several numbers of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace xoe::tools {

struct DataCompareOptions {
  std::string directory;
  std::vector<int> ranks = {1, 2, 4};
  int batch = 64;
  int image_size = 224;
  int shuffle = 500;
  int threads = 0;        // of each rank; 0: the cores, shared by the ranks
  double step_ms = 0;     // that the consumer takes; 0: so that most ranks want 70 % of what the new way makes here
  double seconds = 5;     // that are measured, after
  double warmup = 3;      // so many that are not
  std::string plot = {};  // an SVG file; empty: none
  bool json = false;
};

// What all ranks of one way got together.
struct WayFigures {
  std::string way;
  int ranks = 0;
  int threads = 0;  // of each
  double images_per_s = 0;
  double wanted = 0;      // images/s, had no consumer waited
  double idle_share = 0;  // of the consumers' time, waiting
  double cpu_ms_per_image = 0;
  std::uint64_t memory = 0;
};

// Prints to stdout; an error to stderr. Returns the exit code.
int compare(const DataCompareOptions& options);

}  // namespace xoe::tools
