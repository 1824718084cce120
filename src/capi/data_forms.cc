// How values of options are written.
#include "capi/data_options.h"

namespace xoe::capi {
namespace {

// One of these, by number; empty from their end on.
template <std::size_t kCount>
std::string_view pick(const std::string_view (&names)[kCount], auto value) {
  const auto index = static_cast<std::size_t>(value);
  return index < kCount ? names[index] : std::string_view();
}

// So many numbers with commas between them.
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

std::string_view name_of(data::Remainder value) { return pick({"drop", "pad", "keep"}, value); }
std::string_view name_of(data::OnError value) { return pick({"fail", "skip"}, value); }
std::string_view name_of(data::Quality value) { return pick({"exact", "fast"}, value); }
std::string_view name_of(data::Layout value) { return pick({"nchw", "nhwc"}, value); }

std::optional<std::array<float, 3>> Form<std::array<float, 3>>::read(std::string_view text) {
  const auto numbers = numbers_of(text, 3);
  if (!numbers) return std::nullopt;
  const auto at = [&numbers](std::size_t i) { return static_cast<float>((*numbers)[i]); };
  return std::array{at(0), at(1), at(2)};
}
std::string Form<std::array<float, 3>>::write(const std::array<float, 3>& value) {
  return fmt::format("{},{},{}", value[0], value[1], value[2]);
}
std::string Form<std::array<float, 3>>::choices() { return "three numbers with commas between them"; }

std::optional<data::ColourJitter> Form<data::ColourJitter>::read(std::string_view text) {
  const auto numbers = numbers_of(text, 4);
  if (!numbers) return std::nullopt;
  const auto& n = *numbers;
  return data::ColourJitter{.brightness = n[0], .contrast = n[1], .saturation = n[2], .hue = n[3]};
}
std::string Form<data::ColourJitter>::write(const data::ColourJitter& value) {
  return fmt::format("{},{},{},{}", value.brightness, value.contrast, value.saturation, value.hue);
}
std::string Form<data::ColourJitter>::choices() { return "BRIGHTNESS,CONTRAST,SATURATION,HUE"; }

std::optional<data::RandAugment> Form<data::RandAugment>::read(std::string_view text) {
  const auto parts = split_text(text, ',');
  if (parts.size() != 3) return std::nullopt;
  const auto operations = Form<int>::read(parts[0]);
  const auto magnitude = Form<int>::read(parts[1]);
  const auto bins = Form<int>::read(parts[2]);
  if (!operations || !magnitude || !bins) return std::nullopt;
  return data::RandAugment{.operations = *operations, .magnitude = *magnitude, .bins = *bins};
}
std::string Form<data::RandAugment>::write(const data::RandAugment& value) {
  return fmt::format("{},{},{}", value.operations, value.magnitude, value.bins);
}
std::string Form<data::RandAugment>::choices() { return "OPERATIONS,MAGNITUDE,BINS, whole numbers"; }

std::optional<data::RandomErasing> Form<data::RandomErasing>::read(std::string_view text) {
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
std::string Form<data::RandomErasing>::write(const data::RandomErasing& value) {
  return fmt::format("{},{},{},{},{},{}", value.probability, value.area[0], value.area[1], value.ratio[0],
                     value.ratio[1], value.noise ? "noise" : fmt::format("{}", value.value));
}
std::string Form<data::RandomErasing>::choices() {
  return "PROBABILITY,AREA,AREA,RATIO,RATIO,VALUE, where VALUE may be noise";
}

}  // namespace xoe::capi
