#include "pool/core/names.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

namespace xoe::pool {
namespace {

// The bytes of the hidden character at the start of a text; 0: there is none. Besides control characters: U+061C,
// U+200B, U+200E, U+200F, U+2028 to U+202E, U+2060, U+2066 to U+2069, U+FEFF.
std::size_t hidden_length(std::string_view text) {
  const auto at = [&](std::size_t n) { return n < text.size() ? static_cast<unsigned char>(text[n]) : 0U; };
  if (text.empty()) return 0;
  if (at(0) < 0x20 || at(0) == 0x7f) return 1;
  const unsigned pair = at(0) << 8U | at(1), last = at(2);
  if (pair == 0xd89c || (pair >= 0xc280 && pair < 0xc2a0)) return 2;
  const bool is_hidden =
      (pair == 0xe280 && (last == 0x8b || last == 0x8e || last == 0x8f || (last >= 0xa8 && last <= 0xae))) ||
      (pair == 0xe281 && (last == 0xa0 || (last >= 0xa6 && last <= 0xa9))) || (pair == 0xefbb && last == 0xbf);
  return is_hidden ? 3 : 0;
}

bool is_plain(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

bool is_name(std::string_view text, std::size_t longest, std::string_view more) {
  return !text.empty() && text.size() <= longest && is_plain(text[0]) &&
         std::ranges::all_of(text, [&](char c) { return is_plain(c) || more.find(c) != std::string_view::npos; });
}

std::string name_rule(std::size_t longest, std::string_view more) {
  std::string characters;
  for (const char c : more) characters += fmt::format("{}{}", characters.empty() ? "" : " ", c);
  return fmt::format(
      "a name has up to {} letters, digits and the characters _ {}, and begins with a letter, a digit or _", longest,
      characters);
}

bool has_hidden_characters(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (hidden_length(text.substr(i)) > 0) return true;
  return false;
}

std::string shown_text(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t hidden = hidden_length(text);
    shown += hidden > 0 ? std::string_view("\xef\xbf\xbd") : text.substr(0, 1);
    text.remove_prefix(hidden > 0 ? hidden : 1);
  }
  return shown;
}

}  // namespace xoe::pool
