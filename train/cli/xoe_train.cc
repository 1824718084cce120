// xoe-train: understands its command line, and becomes xoe-trainer, which takes a second to load libtorch.
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "core/base/error.h"
#include "train/cli/train_command_line.h"

int main(int argc, char** argv) {
  constexpr int kNoProgram = 127;
  if (const auto line = xoe::parse_train_command_line(argc, argv); !line) return line.error();
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).replace_filename("xoe-trainer");
  ::execv(program.c_str(), argv);
  fmt::print(stderr, "error: cannot run {}: {}\n", program.string(), xoe::errno_text(errno));
  return kNoProgram;
}
