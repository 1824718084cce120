#include "data/options/forms.h"

#include <vector>

#include "core/base/text.h"

namespace xoe::data {

using describe::name_among;

std::string_view option_name(Compression value) {
  return value <= Compression::kZlib ? compression_name(value) : std::string_view();
}
std::string_view option_name(DType value) {
  return static_cast<int>(value) < kDTypeCount ? dtype_name(value) : std::string_view();
}
std::string_view option_name(Remainder value) { return name_among({"drop", "pad", "keep"}, value); }
std::string_view option_name(Split value) { return name_among({"train", "validation", "test"}, value); }
std::string_view option_name(OnError value) { return name_among({"fail", "skip"}, value); }
std::string_view option_name(Quality value) { return name_among({"exact", "fast"}, value); }
std::string_view option_name(Layout value) { return name_among({"nchw", "nhwc"}, value); }

}  // namespace xoe::data

namespace xoe::describe {
namespace {

// `count` numbers, separated by commas.
std::optional<std::vector<double>> numbers_of(std::string_view text, std::size_t count) {
  std::vector<double> numbers;
  for (const std::string& part : split_text(text, ',')) {
    const auto number = parse_number(part);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers.size() == count ? std::optional(std::move(numbers)) : std::nullopt;
}

}  // namespace

using Three = std::array<float, 3>;

std::optional<Three> TextForm<Three>::read(std::string_view text) {
  const auto numbers = numbers_of(text, 3);
  if (!numbers) return std::nullopt;
  const auto at = [&numbers](std::size_t i) { return static_cast<float>((*numbers)[i]); };
  return Three{at(0), at(1), at(2)};
}

std::string TextForm<Three>::write(const Three& value) { return fmt::format("{},{},{}", value[0], value[1], value[2]); }

std::optional<data::ColourJitter> TextForm<data::ColourJitter>::read(std::string_view text) {
  const auto numbers = numbers_of(text, 4);
  if (!numbers) return std::nullopt;
  const auto& n = *numbers;
  return data::ColourJitter{.brightness = n[0], .contrast = n[1], .saturation = n[2], .hue = n[3]};
}

std::string TextForm<data::ColourJitter>::write(const data::ColourJitter& value) {
  return fmt::format("{},{},{},{}", value.brightness, value.contrast, value.saturation, value.hue);
}

std::optional<data::RandAugment> TextForm<data::RandAugment>::read(std::string_view text) {
  const auto parts = split_text(text, ',');
  if (parts.size() != 3) return std::nullopt;
  const auto operations = read_text<int>(parts[0], {});
  const auto magnitude = read_text<int>(parts[1], {});
  const auto bins = read_text<int>(parts[2], {});
  if (!operations || !magnitude || !bins) return std::nullopt;
  return data::RandAugment{.operations = *operations, .magnitude = *magnitude, .bins = *bins};
}

std::string TextForm<data::RandAugment>::write(const data::RandAugment& value) {
  return fmt::format("{},{},{}", value.operations, value.magnitude, value.bins);
}

std::optional<data::RandomErasing> TextForm<data::RandomErasing>::read(std::string_view text) {
  constexpr std::string_view kNoise = ",noise";
  const bool noise = text.ends_with(kNoise);
  if (noise) text.remove_suffix(kNoise.size());
  const auto numbers = numbers_of(text, noise ? 5 : 6);
  if (!numbers) return std::nullopt;
  const auto& n = *numbers;
  return data::RandomErasing{.probability = n[0],
                             .area = {n[1], n[2]},
                             .ratio = {n[3], n[4]},
                             .noise = noise,
                             .value = noise ? 0 : static_cast<float>(n[5])};
}

std::string TextForm<data::RandomErasing>::write(const data::RandomErasing& value) {
  return fmt::format("{},{},{},{},{},{}", value.probability, value.area[0], value.area[1], value.ratio[0],
                     value.ratio[1], value.noise ? "noise" : fmt::format("{}", value.value));
}

}  // namespace xoe::describe
