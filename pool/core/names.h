// What names may hold, and what a text may not show.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace xoe::pool {

// Besides letters and digits.
inline constexpr std::string_view kMoreOfNames = ".-@+";
inline constexpr std::string_view kMoreOfHosts = ".-@+:";  // also addresses

// Names stand in tables, CSV files, paths and command lines.
bool is_name(std::string_view text, std::size_t longest, std::string_view more = kMoreOfNames);
// "a name has up to 64 letters, ..."
std::string name_rule(std::size_t longest, std::string_view more = kMoreOfNames);

// Control characters, and those of Unicode that turn the direction, break the line, or have no width. Scripts and emoji
// need two of these, U+200C and U+200D, which do not count.
bool has_hidden_characters(std::string_view text);
// The text with U+FFFD in their place.
std::string shown_text(std::string_view text);

}  // namespace xoe::pool
