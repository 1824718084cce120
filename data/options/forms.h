// How values of the input pipeline's types are written as texts.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "core/describe/text.h"
#include "xoe/data/images.h"
#include "xoe/data/records.h"

namespace xoe::data {

// Names of values; empty: there is no such value.
std::string_view option_name(Compression value);
std::string_view option_name(DType value);
std::string_view option_name(Remainder value);
std::string_view option_name(Split value);
std::string_view option_name(OnError value);
std::string_view option_name(Quality value);
std::string_view option_name(Layout value);

}  // namespace xoe::data

namespace xoe::describe {

template <>
struct TextForm<data::SourceFormat> : EnumForm<data::SourceFormat, data::source_format_name> {};
template <>
struct TextForm<data::Interpolation> : EnumForm<data::Interpolation, data::interpolation_name> {};
template <>
struct TextForm<data::Compression> : EnumForm<data::Compression, data::option_name> {};
template <>
struct TextForm<DType> : EnumForm<DType, data::option_name> {};
template <>
struct TextForm<data::Remainder> : EnumForm<data::Remainder, data::option_name> {};
template <>
struct TextForm<data::Split> : EnumForm<data::Split, data::option_name> {};
template <>
struct TextForm<data::OnError> : EnumForm<data::OnError, data::option_name> {};
template <>
struct TextForm<data::Quality> : EnumForm<data::Quality, data::option_name> {};
template <>
struct TextForm<data::Layout> : EnumForm<data::Layout, data::option_name> {};

template <>
struct TextForm<data::ImageSize> {
  static std::optional<data::ImageSize> read(std::string_view text) {
    const auto size = data::parse_image_size(text);
    return size && size->height >= 1 && size->width >= 1 ? size : std::nullopt;
  }
  static std::string write(data::ImageSize value) { return data::to_text(value); }
  static std::string choices() { return "pixels of a side, or HEIGHTxWIDTH"; }
};

template <>
struct TextForm<std::array<float, 3>> {
  static std::optional<std::array<float, 3>> read(std::string_view text);
  static std::string write(const std::array<float, 3>& value);
  static std::string choices() { return "three numbers, separated by commas"; }
};

template <>
struct TextForm<data::ColourJitter> {
  static std::optional<data::ColourJitter> read(std::string_view text);
  static std::string write(const data::ColourJitter& value);
  static std::string choices() { return "BRIGHTNESS,CONTRAST,SATURATION,HUE"; }
};

template <>
struct TextForm<data::RandAugment> {
  static std::optional<data::RandAugment> read(std::string_view text);
  static std::string write(const data::RandAugment& value);
  static std::string choices() { return "OPERATIONS,MAGNITUDE,BINS, whole numbers"; }
};

template <>
struct TextForm<data::RandomErasing> {
  static std::optional<data::RandomErasing> read(std::string_view text);
  static std::string write(const data::RandomErasing& value);
  static std::string choices() { return "PROBABILITY,AREA,AREA,RATIO,RATIO,VALUE, where VALUE may be noise"; }
};

}  // namespace xoe::describe
