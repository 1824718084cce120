// From CLI11's picture of a command line to Xoe's.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "core/command_line/command.h"

namespace xoe::tools {

// "xoe data make"
std::string full_name(const CLI::App& app);
command_line::Command command_of(const CLI::App& app);

// With their dashes, as the user writes them.
std::vector<std::string> names_of(const CLI::Option& option);
// The options that the help shows.
std::vector<const CLI::Option*> options_of(const CLI::App& app);
std::vector<const CLI::Option*> operands_of(const CLI::App& app);
bool takes_value(const CLI::Option& option);

}  // namespace xoe::tools
