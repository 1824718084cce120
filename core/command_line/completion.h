// Completion of command lines in shells.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/command_line/command.h"

namespace xoe::command_line {

enum class Shell : std::uint8_t { kBash, kZsh, kFish };
const std::vector<std::string>& shell_names();  // "bash", "zsh", "fish"
std::optional<Shell> shell_named(std::string_view name);

// A script for the shell to read that completes `root`, whose name is that of the program: its verbs, their options and
// the options' values. After "ROOT run" and its options the words are those of another program.
std::string completion_script(Shell shell, const Command& root);

}  // namespace xoe::command_line
