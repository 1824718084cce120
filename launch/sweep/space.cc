#include "launch/sweep/space.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"

namespace xoe::launch {
namespace {

using Scale = Parameter::Scale;

tl::unexpected<Error> malformed(std::string_view text) {
  return failure(Code::kInvalidArgument, "--set {}: expected NAME=A,B,C, NAME=LOW..HIGH, NAME=log:LOW..HIGH or {}",
                 printable_utf8(text), "NAME=int:LOW..HIGH");
}

bool is_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return (c < 128 && std::isalnum(c) != 0) || c == '_' || c == '-' || c == '.';
  });
}

std::optional<Scale> take_scale(std::string_view& text) {
  for (const auto& [prefix, scale] :
       {std::pair(std::string_view("log:"), Scale::kLogarithmic), std::pair(std::string_view("int:"), Scale::kWhole)}) {
    if (!text.starts_with(prefix)) continue;
    text.remove_prefix(prefix.size());
    return scale;
  }
  return std::nullopt;
}

// A number between 0 and 1, below 1; the same on every machine, which the standard's distributions are not.
double fraction(std::mt19937_64& random) { return static_cast<double>(random() >> 11U) * 0x1p-53; }

std::string draw(const Parameter& one, std::mt19937_64& random) {
  const double at = fraction(random);
  if (!one.is_range()) return one.values[static_cast<std::size_t>(at * static_cast<double>(one.values.size()))];
  double value = one.low * (1 - at) + one.high * at;
  if (one.scale == Scale::kLogarithmic) value = std::exp(std::log(one.low) * (1 - at) + std::log(one.high) * at);
  if (one.scale != Scale::kWhole) return fmt::format("{:.9g}", std::clamp(value, one.low, one.high));
  return fmt::format("{:.0f}", std::min(std::floor(one.low + at * (one.high - one.low + 1)), one.high));
}

}  // namespace

Result<Parameter> parse_parameter(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || !is_name(text.substr(0, equals))) return malformed(text);
  Parameter parameter{.name = std::string(text.substr(0, equals))};
  std::string_view rest = text.substr(equals + 1);
  const auto scale = take_scale(rest);
  const auto dots = rest.find("..");
  if (dots != std::string_view::npos) {
    const auto low = parse_number(rest.substr(0, dots));
    const auto high = parse_number(rest.substr(dots + 2));
    if (!low || !high || !std::isfinite(*low) || !std::isfinite(*high) || *high < *low) return malformed(text);
    parameter.low = *low;
    parameter.high = *high;
    parameter.scale = scale.value_or(Scale::kLinear);
    if (parameter.scale == Scale::kLogarithmic && *low <= 0)
      return failure(Code::kInvalidArgument, "--set {}: a logarithmic range begins above 0", printable_utf8(text));
    constexpr double kLargestWhole = 0x1p53;
    if (parameter.scale == Scale::kWhole && (std::trunc(*low) != *low || std::trunc(*high) != *high ||
                                             std::abs(*low) > kLargestWhole || std::abs(*high) > kLargestWhole))
      return failure(Code::kInvalidArgument, "--set {}: the ends of int: are whole numbers", printable_utf8(text));
    return parameter;
  }
  if (scale) return malformed(text);
  parameter.values = split_text(rest, ',');
  if (rest.empty()) return malformed(text);
  return parameter;
}

Result<std::vector<Trial>> all_trials(const std::vector<Parameter>& parameters) {
  std::vector<Trial> trials{Trial()};
  for (const Parameter& parameter : parameters) {
    if (parameter.is_range())
      return failure(Code::kInvalidArgument, "{} has a range: say how many trials are drawn, with --random N",
                     parameter.name);
    if (trials.size() > std::size_t{kMostTrials} / parameter.values.size())
      return failure(Code::kInvalidArgument, "there are more than {} combinations; draw some with --random N",
                     kMostTrials);
    std::vector<Trial> more;
    more.reserve(trials.size() * parameter.values.size());
    for (const Trial& trial : trials)
      for (const std::string& value : parameter.values) {
        more.push_back(trial);
        more.back().emplace_back(parameter.name, value);
      }
    trials = std::move(more);
  }
  return trials;
}

std::vector<Trial> drawn_trials(const std::vector<Parameter>& parameters, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  if (std::ranges::none_of(parameters, &Parameter::is_range))
    if (auto all = all_trials(parameters); all) {
      // Fisher and Yates; std::shuffle differs between libraries.
      for (std::size_t i = all->size(); i > 1; --i)
        std::swap((*all)[i - 1], (*all)[static_cast<std::size_t>(fraction(random) * static_cast<double>(i))]);
      all->resize(std::min(count, all->size()));
      return std::move(*all);
    }
  std::vector<Trial> trials(count);
  for (Trial& trial : trials)
    for (const Parameter& parameter : parameters) trial.emplace_back(parameter.name, draw(parameter, random));
  return trials;
}

std::string text_of(const Trial& trial) {
  std::string text;
  for (const auto& [name, value] : trial) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

}  // namespace xoe::launch
