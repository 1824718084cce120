// The fields of a struct (field.h) as texts that people write, by name: options of other languages, their help, and
// whether numbers are within their ranges.
#pragma once

#include <charconv>
#include <chrono>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/describe/field.h"

namespace xoe::describe {

// How values of a type are written that this file does not know. A house specialises it for its own types:
//   static std::optional<T> read(std::string_view text);
//   static std::string write(const T& value);    // of an enumeration: empty where there is no such value
//   static std::string choices();                // what a text may be, for messages: "nchw, nhwc"
template <class T>
struct TextForm;

// names[value]; empty: there are fewer names.
template <std::size_t kCount>
constexpr std::string_view name_among(const std::string_view (&names)[kCount], auto value) {
  const auto index = static_cast<std::size_t>(value);
  return index < kCount ? names[index] : std::string_view();
}

// The form of an enumeration whose values count from 0; kName gives the name of one, and an empty one behind the last.
template <class T, std::string_view (*kName)(T)>
struct EnumForm {
  static std::optional<T> read(std::string_view text) {
    for (int i = 0; !kName(T(i)).empty(); ++i)
      if (kName(T(i)) == text) return T(i);
    return std::nullopt;
  }
  static std::string write(T value) { return std::string(kName(value)); }
  static std::string choices() {
    std::string all(kName(T(0)));
    for (int i = 1; !kName(T(i)).empty(); ++i) all.append(", ").append(kName(T(i)));
    return all;
  }
};

// A span of time is a number of seconds.
template <>
struct TextForm<std::chrono::nanoseconds> {
  static std::optional<std::chrono::nanoseconds> read(std::string_view text) {
    constexpr double kMost = 9e9;  // 285 years
    const auto seconds = parse_number(text);
    if (!seconds || !(std::abs(*seconds) <= kMost)) return std::nullopt;
    return std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(*seconds));
  }
  static std::string write(std::chrono::nanoseconds span) {
    return fmt::format("{}", std::chrono::duration<double>(span).count());
  }
  static std::string choices() { return "seconds, such as 2.5"; }
};

// An option may be left open, or turned off.
template <class T>
inline constexpr std::string_view kUnset = std::is_enum_v<T> || std::same_as<T, bool> ? "auto" : "off";

// "1 to 1024", "0 or more", "above 0, up to 1", "0 to below 1", with ", or auto"; empty: any number.
inline std::string range_text(const Rules& rules) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::string range;
  if (rules.above > -kInfinity) range = fmt::format("above {}", rules.above);
  if (rules.least > -kInfinity) range = fmt::format("{}", rules.least);
  const std::string_view to = range.empty() ? "up to " : rules.above > -kInfinity ? ", up to " : " to ";
  if (rules.most < kInfinity) range += fmt::format("{}{}", to, rules.most);
  if (rules.below < kInfinity) range += fmt::format("{}below {}", range.empty() ? "" : " to ", rules.below);
  if (rules.least > -kInfinity && !(rules.most < kInfinity) && !(rules.below < kInfinity)) range += " or more";
  if (rules.automatic && !range.empty()) range += ", or auto";
  return range;
}

// nullopt: it is no text of such a value. Ranges are not looked at: see check_ranges().
template <class T>
std::optional<T> read_text(std::string_view text, const Rules& rules) {
  if constexpr (std::same_as<T, std::string>) {
    return std::string(text);
  } else if constexpr (std::same_as<T, bool>) {
    if (text == "1" || text == "true") return true;
    if (text == "0" || text == "false") return false;
    return std::nullopt;
  } else if constexpr (std::integral<T>) {
    if (rules.automatic && text == "auto") return static_cast<T>(*rules.automatic);
    if (rules.is_bytes) {
      const auto bytes = parse_bytes(text);
      return bytes && *bytes <= std::numeric_limits<T>::max() ? std::optional(static_cast<T>(*bytes)) : std::nullopt;
    }
    T value{};
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
    return value;
  } else if constexpr (std::floating_point<T>) {
    if (rules.automatic && text == "auto") return static_cast<T>(*rules.automatic);
    return parse_number(text);
  } else if constexpr (kIsOptional<T>) {
    using Value = typename T::value_type;
    if (text == kUnset<Value>) return T();
    auto value = read_text<Value>(text, rules);
    return value ? std::optional<T>(std::move(*value)) : std::nullopt;
  } else {
    return TextForm<T>::read(text);
  }
}

template <class T>
std::string write_text(const T& value, const Rules& rules) {
  if constexpr (std::same_as<T, std::string>) {
    return value;
  } else if constexpr (std::same_as<T, bool>) {
    return value ? "1" : "0";
  } else if constexpr (Number<T>) {
    return rules.automatic && static_cast<double>(value) == *rules.automatic ? "auto" : fmt::format("{}", value);
  } else if constexpr (kIsOptional<T>) {
    using Value = typename T::value_type;
    return value ? write_text<Value>(*value, rules) : std::string(kUnset<Value>);
  } else {
    return TextForm<T>::write(value);
  }
}

// Says which texts are values: "a whole number, 0 or more", "nchw, nhwc".
template <class T>
std::string choices_of(const Rules& rules) {
  const auto number = [&](std::string_view kind, const std::string& range) {
    return range.empty() ? fmt::format("{}{}", rules.automatic ? "auto, or " : "", kind)
                         : fmt::format("{}, {}", kind, range);
  };
  if constexpr (std::same_as<T, std::string>) {
    return "any text";
  } else if constexpr (std::same_as<T, bool>) {
    return "0, 1, false or true";
  } else if constexpr (std::integral<T>) {
    if (rules.is_bytes) return "bytes, as in 1048576, 512K or 2GiB";
    Rules own = rules;
    if (std::unsigned_integral<T> && own.least < 0 && own.above < 0) own.least = 0;
    return number("a whole number", range_text(own));
  } else if constexpr (std::floating_point<T>) {
    return number("a number", range_text(rules));
  } else if constexpr (std::same_as<T, std::chrono::nanoseconds>) {
    return number("seconds", range_text(rules));
  } else if constexpr (kIsOptional<T>) {
    using Value = typename T::value_type;
    return fmt::format("{}, or {}", kUnset<Value>, choices_of<Value>(rules));
  } else {
    return TextForm<T>::choices();
  }
}

// `what`: of which options they are, for messages: "images". `invalid_argument` names the key, and lists all keys, or
// what the value may be.
template <Described T>
Status set_by_name(T& object, std::string_view what, std::string_view key, std::string_view value) {
  std::string all;
  std::optional<Status> done;
  for_each_field<T>([&]<class F>(const F& field) {
    all.append(all.empty() ? "" : ", ").append(field.name);
    if (done || field.name != key) return;
    if (auto read = read_text<typename F::Value>(value, field.rules)) {
      field.of(object) = std::move(*read);
      done = Status();
    } else {
      done = Status(failure(Code::kInvalidArgument, "{}: option {} is '{:.100}'; it may be {}", what, key, value,
                            choices_of<typename F::Value>(field.rules)));
    }
  });
  if (done) return *done;
  return failure(Code::kInvalidArgument, "{}: there is no option '{:.100}'; there are {}", what, key, all);
}

// One line "key=value" for each field, as set_by_name() takes them.
template <Described T>
std::string text_of(const T& object) {
  std::string text;
  for_each_field<T>([&](const auto& field) {
    text += fmt::format("{}={}\n", field.name, write_text(field.of(object), field.rules));
  });
  return text;
}

// Checks that a value exists and lies within its range; an optional one may be unset.
template <class T>
Status check_value(const T& value, std::string_view name, const Rules& rules, std::string_view what) {
  if constexpr (kIsOptional<T>) {
    if (value) return check_value(*value, name, rules, what);
  } else if constexpr (Number<T> && !std::same_as<T, bool>) {
    const auto number = static_cast<double>(value);
    if (number != rules.automatic && !is_within(number, rules))
      return failure(Code::kInvalidArgument, "{}: {} ({}) is {}", what, name, range_text(rules), value);
  } else if constexpr (std::same_as<T, std::chrono::nanoseconds>) {
    const double seconds = std::chrono::duration<double>(value).count();
    if (!is_within(seconds, rules))
      return failure(Code::kInvalidArgument, "{}: {} ({} seconds) is {}", what, name, range_text(rules), seconds);
  } else if constexpr (std::is_enum_v<T>) {
    if (TextForm<T>::write(value).empty())
      return failure(Code::kInvalidArgument, "{}: there is no {} {}", what, name, static_cast<int>(value));
  }
  return {};
}

// Checks that all numbers are within their ranges, and that all enumerations have values that exist.
template <Described T>
Status check_ranges(const T& object, std::string_view what) {
  Status found = {};
  for_each_field<T>([&](const auto& field) {
    if (found) found = check_value(field.of(object), field.name, field.rules, what);
  });
  return found;
}

// A field as its help shows it.
struct Option {
  std::string_view group;
  std::string_view name;
  std::string otherwise;  // its default
  std::string choices;
  std::string_view what;
  bool is_flag;
};

template <Described T>
std::vector<Option> options_of() {
  std::vector<Option> options;
  const T defaults{};
  std::string_view group;
  for_each_field<T>([&]<class F>(const F& field) {
    using Value = typename F::Value;
    if (!field.rules.group.empty()) group = field.rules.group;
    options.push_back({group, field.name, write_text(field.of(defaults), field.rules), choices_of<Value>(field.rules),
                       field.rules.what, std::same_as<Value, bool>});
  });
  return options;
}

}  // namespace xoe::describe
