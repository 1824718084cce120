// The command line of `xoe train`.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include <tl/expected.hpp>

#include "train/trainer/options.h"

namespace xoe {

// `xoe train export RUN FILE`
struct ExportCommandLine {
  std::string run = {};
  std::string file = {};
};

struct TrainCommandLine {
  std::optional<ExportCommandLine> exported = {};  // then the rest does not count
  train::TrainOptions options = {};
  bool json = false;
  std::string summary = {};
};

// What `xoe train` asks where its --run-dir holds a run already, if a person sits at a terminal, with the process in
// the foreground, and the process is no rank of a larger job: offers another folder, and takes it for what was to lie
// in the first one. The trainer refuses a folder that is kept.
void ask_for_run_folder(train::TrainOptions& options);

// --model
void add_model_option(CLI::App& app, std::string& model);

// After --help or a mistake, which have been answered: the exit code.
tl::expected<TrainCommandLine, int> parse_train_command_line(int argc, char** argv);

}  // namespace xoe
