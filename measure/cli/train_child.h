// `xoe run -np N xoe bench train ...` as a child, whose result is read when it has ended.
#pragma once

#include <string>
#include <vector>

#include "measure/cli/child.h"
#include "measure/cli/train_result.h"

namespace xoe::bench {

struct TrainChildOptions {
  int ranks = 1;
  std::string hosts = {};               // of `xoe run -H`; empty: this one
  std::vector<std::string> flags = {};  // of `xoe bench train`
  ChildOptions child = {};
};

class TrainChild {
 public:
  static Result<TrainChild> start(const TrainChildOptions& options);
  // Waits for its end. `unavailable`: it failed, with its last lines.
  Result<TrainResult> finish();
  TrainChild(TrainChild&& other) noexcept = default;
  ~TrainChild();

 private:
  TrainChild(Child child, std::string output) : child_(std::move(child)), output_(std::move(output)) {}

  Child child_;
  std::string output_;  // the file that it writes; removed with this object
};

}  // namespace xoe::bench
