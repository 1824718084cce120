// The folder of a sweep: what was asked for, and how each trial ended.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "launch/sweep/space.h"
#include "xoe/status.h"

namespace xoe::launch {

struct TrialRecord {
  int code = 0;  // exit code of `xoe run`
  double seconds = 0;
  std::optional<double> metric = {};
  std::string problem = {};  // why it does not count; empty: it does
};

// The lines of results.jsonl; each is on the device's way when add() returns, so that a sweep that is killed goes on.
class TrialRecords {
 public:
  // A new folder, or that of the same sweep. `invalid_argument`: it has another one; `unavailable`: it is in use by
  // another `xoe sweep`, or cannot be written.
  static Result<TrialRecords> open(const std::string& folder, const std::vector<Trial>& trials,
                                   const std::vector<std::string>& command, const std::string& metric);

  const std::optional<TrialRecord>& of(std::size_t trial) const { return records_[trial]; }
  const std::vector<std::optional<TrialRecord>>& all() const noexcept { return records_; }
  Status add(std::size_t trial, const TrialRecord& record);

 private:
  TrialRecords(std::string path, Fd lock, Fd results, std::size_t trials)
      : path_(std::move(path)), lock_(std::move(lock)), results_(std::move(results)), records_(trials) {}

  std::string path_;
  Fd lock_;
  Fd results_;
  std::vector<std::optional<TrialRecord>> records_;
};

}  // namespace xoe::launch
