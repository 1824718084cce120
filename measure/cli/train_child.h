// `xoe run -np N xoe bench train ...` as a child, whose result is read when it has ended.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "measure/cli/train_result.h"

namespace xoe::bench {

struct TrainChildOptions {
  int ranks = 1;
  std::string hosts = {};                             // of `xoe run -H`; empty: this one
  std::vector<std::string> flags = {};                // of `xoe bench train`
  std::map<std::string, std::string> variables = {};  // beside this process's own
  std::optional<cpu_set_t> cpus = {};                 // those that it may run on
};

// A running program, which ends with this object or with this process.
class TrainChild {
 public:
  // `unavailable`: it cannot be started.
  static Result<TrainChild> start(const TrainChildOptions& options);
  TrainChild(TrainChild&& other) noexcept;
  TrainChild& operator=(TrainChild&&) = delete;
  ~TrainChild();

  // Waits for its end. `unavailable`: not with exit code 0; with how, and the last lines that it wrote.
  Result<TrainResult> finish();

 private:
  TrainChild(pid_t pid, Fd log, std::string name, std::string output)
      : pid_(pid), log_(std::move(log)), name_(std::move(name)), output_(std::move(output)) {}

  pid_t pid_;
  Fd log_;  // a file in memory
  std::string name_;
  std::string output_;  // the file of its result; removed with this object
};

}  // namespace xoe::bench
