// The command line of `xoe train`.
#pragma once

#include <string>

#include <tl/expected.hpp>

#include "train/options.h"

namespace xoe {

struct TrainCommandLine {
  train::TrainOptions options = {};
  bool json = false;
  std::string summary = {};
};

// After --help or a mistake, which have been answered: the exit code.
tl::expected<TrainCommandLine, int> parse_train_command_line(int argc, char** argv);

}  // namespace xoe
