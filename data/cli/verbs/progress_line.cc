#include "data/cli/verbs/progress_line.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

namespace xoe::tools {
namespace {

constexpr double kRedraw = 0.1;  // seconds

std::string time_left(double seconds) {
  const std::int64_t whole = std::llround(seconds);
  if (whole < 100) return fmt::format("{} s", whole);
  if (whole < 6000) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

}  // namespace

ProgressLine::ProgressLine(std::string verb, bool wanted)
    : verb_(std::move(verb)), wanted_(wanted), terminal_(::isatty(STDERR_FILENO) != 0) {}

ProgressLine::~ProgressLine() {
  if (drawn_ >= 0) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::show(std::int64_t done, std::int64_t total, std::string_view unit) {
  if (total <= 0) return;
  if (first_ < 0) first_ = done;
  std::string text = fmt::format("{}/{} {}", done, total, unit);
  if (terminal_ && seconds() > 1) text += fmt::format(", {:.0f}/s", static_cast<double>(done - first_) / seconds());
  show(static_cast<double>(done) / static_cast<double>(total), text);
}

void ProgressLine::show(double share, const std::string& text) {
  if (!wanted_) return;
  share = std::clamp(share, 0.0, 1.0);
  if (!terminal_) {
    const int quarter = static_cast<int>(4 * share);
    if (quarter > quarter_) fmt::print(stderr, "{}: {}\n", verb_, text);
    quarter_ = std::max(quarter, quarter_);
    return;
  }
  const double now = seconds();
  if (drawn_ < 0) first_share_ = share;
  if (drawn_ >= 0 && now - drawn_ < kRedraw && share < 1) return;
  constexpr double kWidth = 30;
  std::string left;
  if (now > 1 && share > first_share_ && share < 1)
    left = fmt::format(", {} left", time_left(now * (1 - share) / (share - first_share_)));
  fmt::print(stderr, "\r[{:<30}] {}{}\033[K", std::string(static_cast<std::size_t>(kWidth * share), '='), text, left);
  std::fflush(stderr);
  drawn_ = now;
}

}  // namespace xoe::tools
