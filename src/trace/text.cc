#include "trace/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

namespace xoe::trace {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80; }

// The length of the UTF-8 character at the start of `text`; 0: there is none.
std::size_t utf8_length(std::string_view text) {
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

}  // namespace

void append_json_text(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char c = text[0];
    if (length == 0) {
      out += '?';
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
}

void append_number(std::string& out, std::uint64_t number, int base) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, base).ptr;
  out.append(digits.data(), static_cast<std::size_t>(end - digits.data()));
}

void append_us(std::string& out, std::int64_t ns) {
  if (ns < 0) out += '-';
  const std::uint64_t size = ns < 0 ? -static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  append_number(out, size / 1000);
  const auto rest = static_cast<unsigned>(size % 1000);
  const char digits[] = {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                         static_cast<char>('0' + rest % 10)};
  out.append(digits, sizeof digits);
}

std::string shortened_text(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  std::size_t keep = limit > 3 ? limit - 3 : 0;
  while (keep > 0 && is_continuation(text[keep])) --keep;
  return std::string(text.substr(0, keep)) + "...";
}

}  // namespace xoe::trace
