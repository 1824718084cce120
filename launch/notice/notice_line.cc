#include "launch/notice/notice_line.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace xoe::notice {
namespace {

constexpr double kMostSeconds = 1e6;
constexpr std::size_t kLongestReason = 300;

std::string reason(std::string_view text) { return printable_utf8(shortened_utf8(text, kLongestReason)); }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

std::string notice_line(const Departure& departure, Time now) {
  const double seconds = std::chrono::duration<double>(departure.at - now).count();
  return fmt::format("{:.3f} {}", std::clamp(seconds, 0.0, kMostSeconds), reason(departure.why));
}

std::optional<Notice> parse_notice_line(std::string_view line) {
  line = trimmed(line);
  const auto space = line.find(' ');
  const auto seconds = parse_number(line.substr(0, space));
  if (!seconds || !(*seconds >= 0) || *seconds > kMostSeconds) return std::nullopt;
  return Notice{.left = std::chrono::milliseconds(std::llround(*seconds * 1000)),
                .why = space == std::string_view::npos ? std::string() : reason(line.substr(space + 1))};
}

}  // namespace xoe::notice
