// The help of a command line.
#pragma once

#include <string>

#include "core/command_line/command.h"

namespace xoe::command_line {

inline constexpr std::size_t kWidth = 80;  // of every line of a help, so that it fits the narrowest common terminal

// Usage, verbs, operands, options and the footer.
std::string help_text(const Command& command);
// "[options] DIR"
std::string usage_of(const Command& command);
// `text` in lines of at most kWidth characters, of which the first `indent` are blank except in the first line.
std::string wrapped(std::string_view text, std::size_t indent);

}  // namespace xoe::command_line
