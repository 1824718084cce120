// Processors: what they can do, how many there are for us, how memory is spread over them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "doctor/facts/tree.h"
#include "doctor/report/finding.h"

namespace xoe::doctor {

struct NumaNode {
  int number = 0;
  std::string cpus = {};  // "0-15"
  std::uint64_t memory = 0;
};

struct CpuFacts {
  std::string model = {};
  std::string architecture = {};  // as the kernel names it; empty when not known
  std::set<std::string, std::less<>> flags = {};
  int online = 0;
  int usable = 0;  // that this process may run on
  int cores = 0;   // of the usable ones, hardware threads of one core counted once
  int sockets = 0;
  std::vector<NumaNode> nodes = {};
};

CpuFacts read_cpu(const Tree& tree);
// `quota`: processors of time that a control group leaves us.
Findings check_cpu(const CpuFacts& facts, std::optional<double> quota);

}  // namespace xoe::doctor
