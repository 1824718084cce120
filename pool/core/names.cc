#include "pool/core/names.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "core/base/utf8.h"

namespace xoe::pool {
namespace {

struct Range {
  char32_t first = 0;
  char32_t last = 0;
};

// Control characters, those that turn the direction or break the line, and Unicode's Default_Ignorable_Code_Point:
// https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt
constexpr Range kHidden[] = {{0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},      {0x34f, 0x34f},
                             {0x61c, 0x61c},     {0x115f, 0x1160},   {0x17b4, 0x17b5},  {0x180b, 0x180f},
                             {0x200b, 0x200b},   {0x200e, 0x200f},   {0x2028, 0x202e},  {0x2060, 0x206f},
                             {0x3164, 0x3164},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},  {0xfff0, 0xfff8},
                             {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};
// Of the latter, those that scripts and emoji need: after a character that they can change.
constexpr Range kJoiners = {0x200c, 0x200d};
constexpr Range kSelectors = {0xfe00, 0xfe0f};
constexpr char32_t kZeroWidthJoiner = 0x200d;

constexpr bool is_in(const Range& range, char32_t c) { return c >= range.first && c <= range.last; }

// Of one character of UTF-8.
char32_t code_point(std::string_view character) {
  constexpr unsigned kMasks[] = {0x7f, 0x1f, 0x0f, 0x07};
  char32_t code = static_cast<unsigned char>(character[0]) & kMasks[character.size() - 1];
  for (const char c : character.substr(1)) code = code << 6U | (static_cast<unsigned char>(c) & 0x3fU);
  return code;
}

// `before`: the character before it; 0: there is none, or it is hidden.
bool is_hidden(char32_t c, char32_t before) {
  if (!is_in(kJoiners, c) && !is_in(kSelectors, c))
    return std::ranges::any_of(kHidden, [c](const Range& range) { return is_in(range, c); });
  if (is_in(kSelectors, before)) return c != kZeroWidthJoiner;
  return before < 0x80 || is_in(kJoiners, before);
}

// Calls visit(bytes, is_hidden) for each character; bytes that are no UTF-8 do not show either.
template <class Visit>
void for_each_character(std::string_view text, Visit&& visit) {
  for (char32_t before = 0; !text.empty();) {
    const std::size_t length = utf8_length(text);
    const std::string_view bytes = text.substr(0, std::max<std::size_t>(length, 1));
    const char32_t c = length == 0 ? 0 : code_point(bytes);
    const bool hidden = is_hidden(c, before);
    visit(bytes, hidden);
    before = hidden ? 0 : c;
    text.remove_prefix(bytes.size());
  }
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
  bool found = false;
  for_each_character(text, [&](std::string_view, bool hidden) { found |= hidden; });
  return found;
}

std::string shown_text(std::string_view text) {
  std::string shown;
  for_each_character(text, [&](std::string_view bytes, bool hidden) { shown += hidden ? "\xef\xbf\xbd" : bytes; });
  return shown;
}

}  // namespace xoe::pool
