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

// Control characters, bytes that are no UTF-8, and characters of Unicode that turn the direction, break the line, or do
// not show by themselves (Default_Ignorable_Code_Point). Scripts and emoji need some of the last: U+200C, U+200D and
// U+FE00 to U+FE0F do not count after a character beyond ASCII.
bool has_hidden_characters(std::string_view text);
// The text with U+FFFD in their place.
std::string shown_text(std::string_view text);

}  // namespace xoe::pool
