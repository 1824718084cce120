// Names that people choose.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace xoe::pool {

// Besides letters and digits.
inline constexpr std::string_view kMoreOfNames = ".-@+";
inline constexpr std::size_t kLongestUserName = 64;
inline constexpr std::string_view kMoreOfHosts = ".-@+:";  // also addresses

// Names stand in tables, CSV files, paths and command lines.
bool is_name(std::string_view text, std::size_t longest, std::string_view more = kMoreOfNames);
// The text as a name: "-" takes the place of what names cannot hold. "CORP\ann" becomes "CORP-ann".
std::string name_like(std::string_view text, std::size_t longest, std::string_view more = kMoreOfNames);
// "a name has up to 64 letters, ..."
std::string name_rule(std::size_t longest, std::string_view more = kMoreOfNames);

}  // namespace xoe::pool
