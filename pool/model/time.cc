#include "pool/model/time.h"

#include <ctime>

#include <fmt/format.h>

namespace xoe::pool {

std::string time_text(Time time) {
  const auto seconds =
      static_cast<std::time_t>(std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count());
  std::tm parts = {};
  ::gmtime_r(&seconds, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string span_text(Span span) {
  const auto seconds = std::chrono::round<std::chrono::seconds>(span).count();
  const auto both = [](auto large, const char* unit, auto small, const char* part) {
    return small == 0 ? fmt::format("{} {}", large, unit) : fmt::format("{} {} {} {}", large, unit, small, part);
  };
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return both(seconds / 60, "min", seconds % 60, "s");
  if (seconds < 2 * 86400) return both(seconds / 3600, "h", seconds % 3600 / 60, "min");
  return both(seconds / 86400, "d", seconds % 86400 / 3600, "h");
}

}  // namespace xoe::pool
