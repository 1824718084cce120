// `xoe data bench`: how fast this machine makes batches of a data set, and what that costs.
#pragma once

#include <string>

namespace xoe::tools {

struct DataBenchOptions {
  std::string directory;
  std::string pattern;  // of file names; empty: train-*
  int batch = 64;
  int image_size = 224;
  int threads = 0;  // 0: tuned, up to the CPUs that the program was given
  int shuffle = 500;
  std::string mode = "exact";
  std::string dtype = "float32";
  bool explain = false;
  double seconds = 8;   // that are measured, after
  double warmup = 3;    // so many that are not
  double consumer = 0;  // images/s of an emulated consumer; 0: none
  bool json = false;
};

// Prints to stdout; an error to stderr. Returns the exit code.
int bench(const DataBenchOptions& options);

}  // namespace xoe::tools
