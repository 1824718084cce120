#include "pool/cli/point_in_time.h"

#include <ctime>
#include <optional>
#include <regex>
#include <vector>

#include "core/base/error.h"

namespace xoe::tools::pool {
namespace {

using xoe::pool::Time;

// The same time of the day, with or without summer time; nullopt: the clock does not show it.
std::optional<std::time_t> local(std::tm parts, int summer) {
  const std::tm wanted = parts;
  parts.tm_isdst = summer;
  const std::time_t time = std::mktime(&parts);
  const bool shown = parts.tm_mday == wanted.tm_mday && parts.tm_hour == wanted.tm_hour &&
                     parts.tm_min == wanted.tm_min && parts.tm_isdst == summer;
  return time != -1 && shown ? std::optional(time) : std::nullopt;
}

Result<Time> local_time_of(const std::tm& parts, const std::string& text) {
  const auto winter = local(parts, 0);
  const auto summer = local(parts, 1);
  if (winter && summer && *winter != *summer)
    return failure(Code::kInvalidArgument,
                   "{} comes twice that day, when the clock is set back: add an offset, such as +01:00", text);
  if (!winter && !summer)
    return failure(Code::kInvalidArgument, "{} does not come that day: the clock is set forward over it", text);
  return Time(std::chrono::seconds(winter ? *winter : *summer));
}

}  // namespace

Result<Time> parse_point_in_time(const std::string& text) {
  static const std::regex kForm(R"((\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2})(?::(\d{2}))?(Z|[+-]\d{2}:?\d{2})?)");
  std::smatch found;
  if (!std::regex_match(text, found, kForm))
    return failure(Code::kInvalidArgument,
                   "\"{}\" is no time: expected one of this host such as 2026-12-01T09:00, or with Z or +01:00", text);
  std::vector<int> numbers;
  for (std::size_t i = 1; i <= 6; ++i) numbers.push_back(found[i].matched ? std::stoi(found[i]) : 0);
  const std::chrono::year_month_day day{std::chrono::year(numbers[0]),
                                        std::chrono::month(static_cast<unsigned>(numbers[1])),
                                        std::chrono::day(static_cast<unsigned>(numbers[2]))};
  if (!day.ok()) return failure(Code::kInvalidArgument, "{}: there is no such day", text);
  if (numbers[3] > 23 || numbers[4] > 59 || numbers[5] > 59)
    return failure(Code::kInvalidArgument, "{}: there is no such time of the day", text);
  const std::string zone = found[7];
  if (zone.empty()) {
    std::tm parts = {};
    parts.tm_year = numbers[0] - 1900;
    parts.tm_mon = numbers[1] - 1;
    parts.tm_mday = numbers[2];
    parts.tm_hour = numbers[3];
    parts.tm_min = numbers[4];
    parts.tm_sec = numbers[5];
    return local_time_of(parts, text);
  }
  std::chrono::minutes offset(0);
  if (zone != "Z") {
    const int hours = std::stoi(zone.substr(1, 2));
    const int minutes = std::stoi(zone.substr(zone.size() - 2));
    if (hours > 14 || minutes > 59) return failure(Code::kInvalidArgument, "{}: there is no such offset", text);
    offset = std::chrono::minutes(60 * hours + minutes) * (zone[0] == '-' ? -1 : 1);
  }
  return Time(std::chrono::sys_days(day) + std::chrono::hours(numbers[3]) + std::chrono::minutes(numbers[4]) +
              std::chrono::seconds(numbers[5]) - offset);
}

}  // namespace xoe::tools::pool
