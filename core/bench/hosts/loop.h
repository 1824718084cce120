// How an allreduce over hosts is measured, the same for all engines.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace xoe::bench {

struct Engine {
  int rank = 0;
  int size = 1;
  std::function<void(float*, std::size_t)> sum;  // in place
  std::function<double(double)> maximum;         // over all ranks
};

// Bytes that this host has sent over `interface`; 0 where there is none of that name.
inline double sent_bytes(const std::string& interface) {
  std::ifstream devices("/proc/self/net/dev");
  for (std::string line; std::getline(devices, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || line.find(interface) == std::string::npos || line.find(interface) > colon)
      continue;
    double field = 0;
    char* at = line.data() + colon + 1;
    for (int i = 0; i < 9; ++i) field = std::strtod(at, &at);
    return field;
  }
  return 0;
}

// Arguments: INTERFACE SECONDS BYTES... For each size one line of JSON from rank 0: the median over samples of the
// slowest rank's time, and what its host sent for each allreduce.
inline int measure(const Engine& engine, int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s INTERFACE SECONDS BYTES...\n", argv[0]);
    return 2;
  }
  const double seconds = std::atof(argv[2]);
  for (int i = 3; i < argc; ++i) {
    const std::size_t count = static_cast<std::size_t>(std::atoll(argv[i])) / sizeof(float);
    std::vector<float> data(count);
    std::vector<double> times;
    double spent = 0, sent = 0;
    for (int n = 0; n < 4 || (spent < seconds && n < 2000); ++n) {
      std::fill(data.begin(), data.end(), static_cast<float>(engine.rank + 1));  // as backward does
      engine.maximum(0);                                                         // all together
      const double before = sent_bytes(argv[1]);
      const auto began = Clock::now();
      engine.sum(data.data(), count);
      const double mine = std::chrono::duration<double>(Clock::now() - began).count();
      const double slowest = engine.maximum(mine);
      if (data[count - 1] != static_cast<float>(engine.size * (engine.size + 1) / 2)) {
        std::fprintf(stderr, "rank %d: wrong sum %g\n", engine.rank, static_cast<double>(data[count - 1]));
        return 1;
      }
      if (n == 0) continue;  // connections and memory are new
      times.push_back(slowest);
      sent += sent_bytes(argv[1]) - before;
      spent += slowest;
    }
    std::sort(times.begin(), times.end());
    if (engine.rank == 0) {
      std::printf("{\"bytes\": %zu, \"seconds\": %.9f, \"samples\": %zu, \"sent\": %.0f}\n", count * sizeof(float),
                  times[times.size() / 2], times.size(), sent / static_cast<double>(times.size()));
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace xoe::bench
