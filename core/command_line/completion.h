// Completion of command lines in shells.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/command_line/command.h"

namespace xoe::command_line {

const std::vector<std::string>& shell_names();  // "bash", "zsh", "fish"

// A script for one of these shells to read that completes `root`, whose name is that of the program: its verbs, their
// options and the options' values. After "ROOT run" and its options the words are those of another program.
std::string completion_script(std::string_view shell, const Command& root);

}  // namespace xoe::command_line
