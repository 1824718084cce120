// What a terminal shows.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/env.h"

namespace xoe::command_line {

// Whether text on this descriptor may have colours: it is a terminal, and NO_COLOR is unset or empty.
bool colours_wanted(int fd, const Env& env);

// Columns and rows of the terminal, or `otherwise` where there is none.
int terminal_width(int fd, int otherwise);
int terminal_height(int fd, int otherwise);

// `line` for one row of a terminal: at most so many columns (two for a wide character), without control characters;
// colours stay, and end with it.
std::string fitted(std::string_view line, std::size_t columns);

// The columns that a line takes which has no control characters but those of colours.
std::size_t columns_of(std::string_view line);

}  // namespace xoe::command_line
