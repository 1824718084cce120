#include "core/base/utf8.h"

#include <algorithm>

namespace xoe {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80; }

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
// Scripts and emoji need these; they do not count after a character that they can change.
constexpr Range kJoiners = {0x200c, 0x200d};
constexpr Range kSelectors = {0xfe00, 0xfe0f};
constexpr char32_t kZeroWidthJoiner = 0x200d;

constexpr bool is_in(const Range& range, char32_t c) { return c >= range.first && c <= range.last; }

// Returns the number of one character of UTF-8.
char32_t code_point(std::string_view character) {
  constexpr unsigned kMasks[] = {0x7f, 0x1f, 0x0f, 0x07};
  char32_t code = static_cast<unsigned char>(character[0]) & kMasks[character.size() - 1];
  for (const char c : character.substr(1)) code = code << 6U | (static_cast<unsigned char>(c) & 0x3fU);
  return code;
}

// `before` is the character before it, and 0 where there is none or where it is hidden.
bool is_hidden(char32_t c, char32_t before) {
  if (!is_in(kJoiners, c) && !is_in(kSelectors, c))
    return std::ranges::any_of(kHidden, [c](const Range& range) { return is_in(range, c); });
  if (is_in(kSelectors, before)) return c != kZeroWidthJoiner;
  return before < 0x80 || is_in(kJoiners, before);
}

bool is_control(char32_t c) { return c < 0x20 || (c >= 0x7f && c < 0xa0); }

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Calls visit(bytes, c, is_hidden) for each character; c is 0, and hidden, for a byte that is no UTF-8.
template <class Visit>
void for_each_character(std::string_view text, Visit&& visit) {
  for (char32_t before = 0; !text.empty();) {
    const std::size_t length = utf8_length(text);
    const std::string_view bytes = text.substr(0, std::max<std::size_t>(length, 1));
    const char32_t c = length == 0 ? 0 : code_point(bytes);
    const bool hidden = is_hidden(c, before);
    visit(bytes, c, hidden);
    before = hidden ? 0 : c;
    text.remove_prefix(bytes.size());
  }
}

}  // namespace

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : 4;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  if (!std::all_of(text.begin() + 1, text.begin() + static_cast<std::ptrdiff_t>(length), is_continuation)) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool no_character = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
  return overlong || no_character ? 0 : length;
}

std::string_view shortened_utf8(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && is_continuation(text[end])) --end;
  return text.substr(0, end);
}

bool has_hidden_characters(std::string_view text) {
  bool found = false;
  for_each_character(text, [&](std::string_view, char32_t, bool hidden) { found |= hidden; });
  return found;
}

std::string utf8_line(std::string_view text) {
  std::string line;
  for_each_character(text,
                     [&](std::string_view bytes, char32_t c, bool) { line += is_control(c) ? kReplacement : bytes; });
  return line;
}

std::string printable_utf8(std::string_view text) {
  std::string printable;
  for_each_character(
      text, [&](std::string_view bytes, char32_t, bool hidden) { printable += hidden ? kReplacement : bytes; });
  return printable;
}

}  // namespace xoe
