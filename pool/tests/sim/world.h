// The truth of a simulated lab, whatever the pool knows of it: which program computes on which GPU.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/testing/sim/simulation.h"

namespace xoe::pool::sim_tests {

struct Computing {
  std::string host = {};
  std::set<std::string> gpus = {};
  bool busy = true;
  std::int64_t lease = 0;  // 0: it has none
  sim::Time since = 0;
};

struct World {
  std::map<std::string, int> gpus;       // of each host
  std::map<pid_t, Computing> computing;  // also of processes that were killed
  std::vector<std::string> problems;

  std::vector<pid_t> programs_on(const std::string& host, const std::string& gpu) const;
};
extern World* world;  // in memory that all simulated processes share

std::string gpu_name(const std::string& host, int index);

// The program of users: SECONDS busy|idle, on the GPUs of CUDA_VISIBLE_DEVICES.
int training(int argc, char** argv);

}  // namespace xoe::pool::sim_tests
