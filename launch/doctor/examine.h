// Examines one machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launch/doctor/report/report.h"
#include "xoe/status.h"

namespace xoe::doctor {

// In the order in which they are shown. "compute" loads the devices: only where it is asked for.
inline constexpr std::string_view kGroups[] = {"cpu",  "memory", "files", "process", "virtual", "container", "network",
                                               "rdma", "pcie",   "gpu",   "xoe",     "python",  "compute"};

struct ExamineOptions {
  std::string root = "/";              // of /proc, /sys, /dev; another one: a recorded tree
  std::vector<std::string> only = {};  // groups; empty: all but compute
  bool compute = false;                // that one, too
  std::string nvml = {};  // NVIDIA's library; empty: libnvidia-ml.so.1 for the running machine, none for a recorded one
  std::string nccl = {};  // NCCL; empty: where ranks look
  std::string plugins = {};  // folder of Xoe's plug-ins; empty: where Xoe itself looks
  std::string version = {};  // of Xoe
  std::string program = {};  // whole path
};

// invalid_argument: no such group or root.
Result<Report> examine(const ExamineOptions& options);

}  // namespace xoe::doctor
