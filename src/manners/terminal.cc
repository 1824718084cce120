#include "manners/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace xoe::manners {
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

}  // namespace

bool colours_wanted(int fd, const Env& env) { return ::isatty(fd) == 1 && !env.has("NO_COLOR"); }

int terminal_width(int fd, int otherwise) {
  winsize size = {};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

std::string fitted(std::string_view line, std::size_t columns) {
  std::string out;
  bool coloured = false;
  for (std::size_t used = 0; !line.empty();) {
    const bool escape = line.front() == kEscape;
    const std::size_t length = escape ? escape_length(line) : character_length(line);
    const std::string_view part = line.substr(0, length);
    line.remove_prefix(length);
    if (escape) {
      if (part.back() != 'm') continue;
      coloured = true;
      out.append(part);
    } else if (used < columns) {
      const auto c = static_cast<unsigned char>(part.front());
      out.append(c < 0x20 || c == 0x7f ? " " : part);
      ++used;
    }
  }
  return coloured ? out.append(kPlain) : out;
}

}  // namespace xoe::manners
