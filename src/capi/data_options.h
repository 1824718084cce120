// Options of the input pipeline by name: one line of a table for each.
#pragma once

#include <array>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "xoe/c_data.h"
#include "xoe/data/images.h"
#include "xoe/data/records.h"
#include "xoe/data/stages.h"

namespace xoe::capi {

// The options of xoe_records_open(); c_data.h says what each means.
struct RecordsOptions {
  int rank = 0;
  int size = 1;
  bool shard_by_file = true;
  bool shuffle_files = false;
  std::int64_t shuffle_buffer = 0;
  data::InterleaveOptions interleave = {.cycle_length = 1};
  std::uint64_t seed = 0;
  std::int64_t epochs = 0;
  data::RecordOptions reading = {};
};

// ---- Text forms: how values of a type are parsed and printed, and what they may be

template <class T>
struct Form;

template <>
struct Form<std::string> {
  static std::optional<std::string> read(std::string_view text) { return std::string(text); }
  static std::string write(const std::string& value) { return value; }
  static std::string choices() { return "any text"; }
};

template <std::integral T>
struct Form<T> {
  static std::optional<T> read(std::string_view text) {
    T value{};
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
    return value;
  }
  static std::string write(T value) { return std::to_string(value); }
  static std::string choices() {
    return fmt::format("a whole number from {} to {}", std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  }
};

template <>
struct Form<bool> {
  static std::optional<bool> read(std::string_view text) {
    if (text == "1" || text == "true") return true;
    if (text == "0" || text == "false") return false;
    return std::nullopt;
  }
  static std::string write(bool value) { return value ? "1" : "0"; }
  static std::string choices() { return "0, 1, false or true"; }
};

template <>
struct Form<double> {
  static std::optional<double> read(std::string_view text) { return parse_number(text); }
  static std::string write(double value) { return fmt::format("{}", value); }
  static std::string choices() { return "a number"; }
};

// Values of several numbers, separated by commas.
template <>
struct Form<std::array<float, 3>> {
  static std::optional<std::array<float, 3>> read(std::string_view text);
  static std::string write(const std::array<float, 3>& value);
  static std::string choices();
};
template <>
struct Form<data::ColourJitter> {
  static std::optional<data::ColourJitter> read(std::string_view text);
  static std::string write(const data::ColourJitter& value);
  static std::string choices();
};
template <>
struct Form<data::RandAugment> {
  static std::optional<data::RandAugment> read(std::string_view text);
  static std::string write(const data::RandAugment& value);
  static std::string choices();
};
template <>
struct Form<data::RandomErasing> {
  static std::optional<data::RandomErasing> read(std::string_view text);
  static std::string write(const data::RandomErasing& value);
  static std::string choices();
};

// The names of an enumeration's values, which count from 0; empty: there is no such value.
inline std::string_view name_of(data::SourceFormat value) { return data::source_format_name(value); }
inline std::string_view name_of(data::Compression value) {
  return value <= data::Compression::kZlib ? data::compression_name(value) : "";
}
inline std::string_view name_of(DType value) { return static_cast<int>(value) < kDTypeCount ? dtype_name(value) : ""; }
std::string_view name_of(data::Remainder value);
std::string_view name_of(data::OnError value);
std::string_view name_of(data::Quality value);
std::string_view name_of(data::Layout value);

template <class T>
requires std::is_enum_v<T>
struct Form<T> {
  static std::optional<T> read(std::string_view text) {
    for (int i = 0; !name_of(T(i)).empty(); ++i)
      if (name_of(T(i)) == text) return T(i);
    return std::nullopt;
  }
  static std::string write(T value) { return std::string(name_of(value)); }
  static std::string choices() {
    std::string all(name_of(T(0)));
    for (int i = 1; !name_of(T(i)).empty(); ++i) all.append(", ").append(name_of(T(i)));
    return all;
  }
};

// An option may be left open ("auto") or turned off ("off").
template <class T>
struct Form<std::optional<T>> {
  static constexpr std::string_view kUnset = std::is_enum_v<T> ? "auto" : "off";
  static std::optional<std::optional<T>> read(std::string_view text) {
    if (text == kUnset) return std::optional<T>();
    const std::optional<T> value = Form<T>::read(text);
    if (!value) return std::nullopt;
    return value;
  }
  static std::string write(const std::optional<T>& value) {
    return value ? Form<T>::write(*value) : std::string(kUnset);
  }
  static std::string choices() { return fmt::format("{}, or {}", kUnset, Form<T>::choices()); }
};

// A number of threads, or kAutoThreads.
struct ThreadsForm {
  static std::optional<int> read(std::string_view text) {
    return text == "auto" ? data::kAutoThreads : Form<int>::read(text);
  }
  static std::string write(int value) { return value == data::kAutoThreads ? "auto" : std::to_string(value); }
  static std::string choices() { return "auto, or " + Form<int>::choices(); }
};

// Bytes, with an optional unit.
struct BytesForm {
  static std::optional<std::size_t> read(std::string_view text) { return parse_bytes(text); }
  static std::string write(std::size_t value) { return std::to_string(value); }
  static std::string choices() { return "bytes, as in 1048576, 512K or 2GiB"; }
};

// ---- Tables

template <class Options>
struct Field {
  std::string_view key;
  bool (*set)(Options& options, std::string_view value);  // false: not one of the choices
  std::string (*text)(const Options& options);
  std::string (*choices)();
};

// The member at the end of a path of members.
template <auto kFirst, auto... kRest>
constexpr auto& member_of(auto& object) {
  if constexpr (sizeof...(kRest) == 0)
    return object.*kFirst;
  else
    return member_of<kRest...>(object.*kFirst);
}

template <class Options, class T>
Options owner_of(T Options::*);

// A line of a table, for a value that is not written in the Form of its type.
template <class F, auto kFirst, auto... kRest>
constexpr auto option_as(std::string_view key) {
  using Options = decltype(owner_of(kFirst));
  return Field<Options>{key,
                        [](Options& options, std::string_view value) {
                          auto read = F::read(value);
                          if (read) member_of<kFirst, kRest...>(options) = std::move(*read);
                          return read.has_value();
                        },
                        [](const Options& options) { return F::write(member_of<kFirst, kRest...>(options)); },
                        F::choices};
}
// option<&Options::batch>("batch"), option<&Options::interleave, &InterleaveOptions::ahead>("ahead"): a line of a
// table.
template <auto kFirst, auto... kRest>
constexpr auto option(std::string_view key) {
  using Options = decltype(owner_of(kFirst));
  using T = std::remove_cvref_t<decltype(member_of<kFirst, kRest...>(std::declval<Options&>()))>;
  return option_as<Form<T>, kFirst, kRest...>(key);
}

template <class Options>
using Table = std::type_identity_t<std::span<const Field<Options>>>;

template <class Options>
Status set_option(Table<Options> fields, std::string_view what, Options& options, std::string_view key,
                  std::string_view value) {
  std::string all;
  for (const Field<Options>& field : fields) {
    if (field.key == key) {
      if (field.set(options, value)) return {};
      return failure(Code::kInvalidArgument, "{}: option {} is '{:.100}'; it may be {}", what, key, value,
                     field.choices());
    }
    all.append(all.empty() ? "" : ", ").append(field.key);
  }
  return failure(Code::kInvalidArgument, "{}: there is no option '{:.100}'; there are {}", what, key, all);
}

template <class Options>
std::string options_text(Table<Options> fields, const Options& options) {
  std::string text;
  for (const Field<Options>& field : fields) text += fmt::format("{}={}\n", field.key, field.text(options));
  return text;
}

}  // namespace xoe::capi

// ---- The objects behind the opaque pointers of c_data.h

struct xoe_images_options {
  mutable std::mutex mutex;
  xoe::data::ImagePipelineOptions options;
};

struct xoe_records_options {
  mutable std::mutex mutex;
  xoe::capi::RecordsOptions options;
};

struct xoe_images {
  std::mutex mutex;  // an iterator is for one thread at a time
  std::unique_ptr<xoe::data::ImageIterator> iterator;
};
