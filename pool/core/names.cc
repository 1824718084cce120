#include "pool/core/names.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace xoe::pool {
namespace {

bool is_plain(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

bool is_name(std::string_view text, std::size_t longest, std::string_view more) {
  return !text.empty() && text.size() <= longest && is_plain(text[0]) &&
         std::ranges::all_of(text, [&](char c) { return is_plain(c) || more.find(c) != std::string_view::npos; });
}

std::string name_like(std::string_view text, std::size_t longest, std::string_view more) {
  std::string name(text);
  for (char& c : name)
    if (!is_plain(c) && more.find(c) == std::string_view::npos) c = '-';
  if (name.empty() || !is_plain(name[0])) name.insert(0, 1, '_');
  return name.substr(0, longest);
}

std::string name_rule(std::size_t longest, std::string_view more) {
  std::string characters;
  for (const char c : more) characters += fmt::format("{}{}", characters.empty() ? "" : " ", c);
  return fmt::format(
      "a name has up to {} letters, digits and the characters _ {}, and begins with a letter, a digit or _", longest,
      characters);
}

}  // namespace xoe::pool
