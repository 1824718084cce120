#include "core/base/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace xoe {
namespace {

constexpr std::string_view kBlanks = " \t\n\r";

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) { return parse_whole<std::int64_t>(text); }

std::optional<double> parse_number(std::string_view text) { return parse_whole<double>(text); }

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  std::size_t digits = 0;
  while (digits < text.size() && (std::isdigit(static_cast<unsigned char>(text[digits])) || text[digits] == '.'))
    ++digits;
  const auto number = parse_number(text.substr(0, digits));
  if (!number) return std::nullopt;
  std::string suffix;
  for (const char c : text.substr(digits)) suffix += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  int power = -1;
  if (suffix.empty() || suffix == "B") power = 0;
  for (int i = 0; i < 5; ++i) {
    const char unit = "KMGTP"[i];
    if (suffix == std::string{unit} || suffix == std::string{unit} + "B" || suffix == std::string{unit} + "IB")
      power = i + 1;
  }
  const double bytes = *number * std::pow(1024.0, power);
  if (power < 0 || bytes < 0 || bytes >= 9.0e18) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string_view trimmed(std::string_view text) {
  const auto from = text.find_first_not_of(kBlanks);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(kBlanks) - from + 1);
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (true) {
    const auto from = text.find_first_not_of(kBlanks);
    if (from == std::string_view::npos) return words;
    text.remove_prefix(from);
    const auto end = std::min(text.find_first_of(kBlanks), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::optional<std::vector<int>> expand_counts(std::string_view text) {
  constexpr std::size_t kMaxExpanded = 65536;
  std::vector<int> counts;
  for (const std::string& item : split_text(text, ',')) {
    const auto open = item.find("(x");
    const auto count = parse_integer(item.substr(0, open));
    std::optional<std::int64_t> times = 1;
    if (open != std::string::npos)
      times = item.back() == ')' ? parse_integer(item.substr(open + 2, item.size() - open - 3)) : std::nullopt;
    if (!count || !times || *count < 0 || *count > 1 << 20 || *times < 1 ||
        static_cast<std::size_t>(*times) > kMaxExpanded - counts.size())
      return std::nullopt;
    counts.insert(counts.end(), static_cast<std::size_t>(*times), static_cast<int>(*count));
  }
  return counts;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun,
                     count == 1                                    ? ""
                     : noun.ends_with('s') || noun.ends_with("ch") ? "es"
                                                                   : "s");
}

std::string human_bytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 6) {
    value /= 1024;
    ++unit;
  }
  return value == std::floor(value) ? fmt::format("{:.0f} {}", value, kUnits[unit])
                                    : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string human_seconds(double seconds) {
  if (seconds >= 1) return fmt::format("{:.4g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.4g} ms", seconds * 1e3);
  return fmt::format("{:.4g} us", seconds * 1e6);
}

std::string human_seconds(std::chrono::nanoseconds time) {
  return human_seconds(std::chrono::duration<double>(time).count());
}

}  // namespace xoe
