// xoe-train: understands its command line, and becomes xoe-trainer, which takes a second to load libtorch.
#include <cstdio>

#include <fmt/format.h>

#include "train/cli/train_command_line.h"
#include "train/cli/trainer_program.h"

int main(int argc, char** argv) {
  constexpr int kNoProgram = 127;
  if (const auto line = xoe::parse_train_command_line(argc, argv); !line) return line.error();
  const xoe::Error error = xoe::train::become_trainer("xoe-trainer", argv);
  fmt::print(stderr, "error: {}\n", error.message());
  return kNoProgram;
}
