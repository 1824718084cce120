#include "core/trace/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "core/base/utf8.h"

namespace xoe::trace {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80; }

// Into memory with room for 20 characters; returns the end.
char* put_number(char* to, std::uint64_t number) noexcept {
  std::array<char, 20> digits;  // from the end
  char* first = digits.data() + digits.size();
  for (; number >= 10; number /= 10) *--first = static_cast<char>('0' + number % 10);
  *--first = static_cast<char>('0' + number);
  return std::copy(first, digits.data() + digits.size(), to);
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

void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 20> text;
  out.append(text.data(), static_cast<std::size_t>(put_number(text.data(), number) - text.data()));
}

char* put_us(char* to, std::int64_t ns) noexcept {
  if (ns < 0) *to++ = '-';
  const std::uint64_t size = ns < 0 ? -static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  to = put_number(to, size / 1000);
  const auto rest = static_cast<unsigned>(size % 1000);
  *to++ = '.';
  *to++ = static_cast<char>('0' + rest / 100);
  *to++ = static_cast<char>('0' + rest / 10 % 10);
  *to++ = static_cast<char>('0' + rest % 10);
  return to;
}

void append_us(std::string& out, std::int64_t ns) {
  std::array<char, 25> text;
  out.append(text.data(), static_cast<std::size_t>(put_us(text.data(), ns) - text.data()));
}

std::string shortened_text(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  std::size_t keep = limit > 3 ? limit - 3 : 0;
  while (keep > 0 && is_continuation(text[keep])) --keep;
  return std::string(text.substr(0, keep)) + "...";
}

}  // namespace xoe::trace
