#include "core/command_line/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace xoe::command_line {
namespace {

constexpr char kEscape = '\x1b';
constexpr std::string_view kPlain = "\x1b[0m";

// The bytes of the escape sequence that `text` begins with.
std::size_t escape_length(std::string_view text) {
  if (text.size() < 2 || text[1] != '[') return std::min<std::size_t>(text.size(), 2);
  std::size_t at = 2;
  while (at < text.size() && (text[at] < 0x40 || text[at] > 0x7e)) ++at;
  return std::min(at + 1, text.size());
}

// Of the character that `text` begins with, in UTF-8.
std::size_t character_length(std::string_view text) {
  std::size_t length = 1;
  while (length < text.size() && (static_cast<unsigned char>(text[length]) & 0xc0U) == 0x80) ++length;
  return length;
}

// That terminals draw in two columns, as Unicode's EastAsianWidth.txt tells: W, F and emoji, by blocks.
constexpr std::pair<char32_t, char32_t> kWide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x23f0, 0x23f0},   {0x23f3, 0x23f3},
    {0x25fd, 0x25fe},   {0x2614, 0x2615},   {0x2648, 0x2653},   {0x267f, 0x267f},   {0x2693, 0x2693},
    {0x26a1, 0x26a1},   {0x26aa, 0x26ab},   {0x26bd, 0x26be},   {0x26c4, 0x26c5},   {0x26ce, 0x26ce},
    {0x26d4, 0x26d4},   {0x26ea, 0x26ea},   {0x26f2, 0x26f3},   {0x26f5, 0x26f5},   {0x26fa, 0x26fa},
    {0x26fd, 0x26fd},   {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},   {0x274c, 0x274c},
    {0x274e, 0x274e},   {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2795, 0x2797},   {0x27b0, 0x27b0},
    {0x27bf, 0x27bf},   {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},   {0x2b55, 0x2b55},   {0x1f004, 0x1f004},
    {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a}, {0x1f200, 0x1f265}, {0x2e80, 0x303e},
    {0x3041, 0xa4cf},   {0xa960, 0xa97c},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
    {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f7e0, 0x1f7eb},
    {0x1f900, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd}};
// That are drawn over the character before: marks, joiners, variation selectors.
constexpr std::pair<char32_t, char32_t> kOver[] = {{0x0300, 0x036f}, {0x200b, 0x200f}, {0x20d0, 0x20f0},
                                                   {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xe0100, 0xe01ef}};

// Of a character in UTF-8.
std::size_t character_columns(std::string_view character) {
  static constexpr unsigned char kLead[] = {0x7f, 0x7f, 0x1f, 0x0f, 0x07};  // the bits of the first byte, by length
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(character[at]); };
  if (character.size() > 4) return 1;
  char32_t code = byte(0) & kLead[character.size()];
  for (std::size_t i = 1; i < character.size(); ++i) code = code << 6U | (byte(i) & 0x3fU);
  const auto within = [code](const auto& range) { return code >= range.first && code <= range.second; };
  if (std::ranges::any_of(kOver, within)) return 0;
  return std::ranges::any_of(kWide, within) ? 2 : 1;
}

}  // namespace

bool colours_wanted(int fd, const Env& env) { return ::isatty(fd) == 1 && !env.has("NO_COLOR"); }

int terminal_width(int fd, int otherwise) {
  winsize size = {};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

int terminal_height(int fd, int otherwise) {
  winsize size = {};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : otherwise;
}

std::string fitted(std::string_view line, std::size_t columns) {
  std::string out;
  bool coloured = false;
  bool cut = false;
  for (std::size_t used = 0; !line.empty();) {
    const bool escape = line.front() == kEscape;
    const std::size_t length = escape ? escape_length(line) : character_length(line);
    const std::string_view part = line.substr(0, length);
    line.remove_prefix(length);
    if (escape) {
      if (part.back() != 'm') continue;
      coloured = true;
      out.append(part);
      continue;
    }
    const auto c = static_cast<unsigned char>(part.front());
    const std::size_t width = character_columns(part);
    cut = cut || used + width > columns;
    if (cut) continue;
    out.append(c < 0x20 || c == 0x7f ? " " : part);
    used += width;
  }
  return coloured ? out.append(kPlain) : out;
}

std::size_t columns_of(std::string_view line) {
  std::size_t columns = 0;
  while (!line.empty()) {
    const bool escape = line.front() == kEscape;
    const std::size_t length = escape ? escape_length(line) : character_length(line);
    if (!escape) columns += character_columns(line.substr(0, length));
    line.remove_prefix(length);
  }
  return columns;
}

}  // namespace xoe::command_line
