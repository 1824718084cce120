// Jobs that share a machine: their speeds alone and together.
#pragma once

#include <sched.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "measure/cli/stats.h"
#include "xoe/status.h"

namespace xoe::bench {

// The numbers of the set.
std::vector<int> cpus_of(const cpu_set_t& set);

// Parts of equal size, one for each job, without a CPU in common; CPUs that are left over belong to none.
// `invalid_argument`: there are more jobs than CPUs.
Result<std::vector<std::vector<int>>> part_cpus(const std::vector<int>& cpus, int jobs);

struct IsolatedJob {
  std::string place;          // "CPUs 0-3", "GPUs 1"
  std::vector<double> alone;  // images/s, by round
  std::vector<double> together;
};

struct Isolation {
  std::string model;
  int ranks = 1;  // of each job
  double emulated_images_per_s = 0;
  std::string environment = {};  // JSON, of a job
  std::vector<IsolatedJob> jobs;
};

struct JobReport {
  Spread alone, together;
  double interference = 0;  // the share of the speed that is lost: 0.05 for 5 %
  Interval interval;        // of it, 95 %, by bootstrap over rounds
};

struct IsolationReport {
  std::vector<JobReport> jobs;
  double alone = 0, together = 0;  // images/s of all jobs: the sums of means
  double interference = 0;
  std::vector<std::string> notes;
};

// REQUIRES: jobs with at least one round each. The same for the same seed.
IsolationReport report_isolation(const Isolation& isolation, std::uint64_t seed);
std::string isolation_text(const Isolation& isolation, const IsolationReport& report);
nlohmann::ordered_json to_json(const Isolation& isolation, const IsolationReport& report);
// For a browser, in one file.
std::string isolation_page(const Isolation& isolation, const IsolationReport& report);

// "0-3,8" for {0, 1, 2, 3, 8}.
std::string ranges_text(const std::vector<int>& numbers);

}  // namespace xoe::bench
