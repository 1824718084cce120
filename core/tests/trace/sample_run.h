// Traces of a training run that never was: four ranks on two hosts, one process each, in the form the engine writes.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "core/trace/timeline.h"

namespace xoe::trace::test {

struct SampleOptions {
  int steps = 4;
  std::chrono::nanoseconds skew = std::chrono::seconds(37);  // how far host b's clock is ahead of host a's
  std::chrono::nanoseconds uncertainty = std::chrono::microseconds(20);
  bool tell_clock = true;
};

inline constexpr int kSampleRanks = 4;
inline constexpr int kSlowRank = 3;

// Writes PREFIX-a.json and PREFIX-b.json from a process per rank; their names. Empty: something failed.
std::vector<std::string> write_sample(const std::string& prefix, const SampleOptions& options = {});

// When, after the start of the run, all ranks have agreed on tensor `tensor` of step `step`.
std::chrono::nanoseconds agreed_at(int step, int tensor);

}  // namespace xoe::trace::test
