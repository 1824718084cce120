#include "trace/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "base/utf8.h"

namespace xoe::trace {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80; }

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
