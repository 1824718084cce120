// A run folder that holds a run already.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "core/base/env.h"
#include "core/base/text.h"
#include "core/bootstrap/launch_env.h"
#include "train/cli/train_command_line.h"
#include "train/trainer/run_folder.h"

namespace xoe {
namespace {

// A process in the background would be stopped when it reads from the terminal.
bool can_be_asked() {
  const auto info = bootstrap::read_launch_info(Env::process());
  return info && info->topology.size == 1 && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1 &&
         ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

bool is_yes(const std::string& answer) {
  const std::string_view word = trimmed(answer);
  return word.empty() || word == "y" || word == "Y" || word == "yes";
}

}  // namespace

void ask_for_run_folder(train::TrainOptions& options) {
  if (options.run_dir.empty() || options.resume || !train::holds_run(options.run_dir) || !can_be_asked()) return;
  const std::string other = train::free_folder_beside(options.run_dir);
  fmt::print(stderr, "xoe train: {} already holds a run; write into {} instead? [Y/n] ", options.run_dir, other);
  std::string answer;
  if (!std::getline(std::cin, answer) || !is_yes(answer)) return;
  options.timeline = train::moved_along(options.timeline, options.run_dir, other);
  options.checkpoint_dir = train::moved_along(options.checkpoint_dir, options.run_dir, other);
  options.run_dir = other;
}

}  // namespace xoe
