#include "measure/pages/event_colors.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace xoe::pages {
namespace {

constexpr std::pair<std::string_view, std::size_t> kNamed[] = {
    {"forward", 0}, {"backward", 4},  {"optimizer", 6}, {"allreduce", 1}, {"pack", 3},       {"unpack", 7},
    {"queue", 8},   {"negotiate", 5}, {"wait", 5},      {"input", 2},     {"checkpoint", 7}, {"evaluation", 9}};
constexpr std::size_t kOfOthers = 8;  // the first of kEventColors

}  // namespace

std::string_view first_word(std::string_view name) noexcept { return name.substr(0, name.find_first_of(" \t\n:(")); }

std::size_t event_color(std::string_view name) noexcept {
  const std::string_view word = first_word(name);
  const auto* const known = std::ranges::find(kNamed, word, &std::pair<std::string_view, std::size_t>::first);
  if (known != std::ranges::end(kNamed)) return known->second;
  std::uint32_t sum = 0;
  for (const char letter : word) sum = (sum * 31 + static_cast<unsigned char>(letter)) % 65521;
  return sum % kOfOthers;
}

std::optional<std::size_t> lane_color(std::string_view name, bool spans) noexcept {
  if (spans || name.starts_with("input") || name.starts_with("wait")) return event_color(name);
  return std::nullopt;
}

}  // namespace xoe::pages
