// Structs with a table (field.h) to and from JSON. Durations and times are seconds, with a fraction; times since 1970.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/describe/field.h"

namespace xoe::describe {

using Json = nlohmann::json;

// A form of JSON.
enum class Form : std::uint8_t {
  kMessage,  // of another program: texts are printable lines, and what does not belong there is refused
  kAnswer,   // of one that may be newer: the same, but fields that are not known are passed over
  // For a database: durations and times are whole milliseconds, enumerations numbers, names those of `stored_as`, an
  // optional value that is not there null. Fields of other versions are passed over, or keep their values.
  kStored,
};

// A value in a message to people: short, and not by a recursion as deep as JSON from outside may be.
std::string shown(const Json& value);
// A text from outside as a printable line of at most `longest` bytes.
std::string line_of(std::string_view text, std::size_t longest);
// Whether a text is such a line.
bool is_line(const Json& json, std::size_t longest);

template <class T>
inline constexpr bool kIsDuration = false;
template <class Rep, class Period>
inline constexpr bool kIsDuration<std::chrono::duration<Rep, Period>> = true;
template <class T>
inline constexpr bool kIsTime = false;
template <class Duration>
inline constexpr bool kIsTime<std::chrono::sys_time<Duration>> = true;
template <class T>
inline constexpr bool kIsOrNull = false;
template <class T>
inline constexpr bool kIsOrNull<OrNull<T>> = true;
template <class T>
inline constexpr bool kIsMap = false;
template <class T>
inline constexpr bool kIsMap<std::map<std::string, T>> = true;
template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;

inline constexpr double kMostSeconds = 1e11;  // beyond the year 5000

template <class Duration>
double to_seconds(Duration span) {
  return std::chrono::duration<double>(span).count();
}
// `seconds` is within what the duration can hold.
template <class Duration>
Duration from_seconds(double seconds) {
  return std::chrono::round<Duration>(std::chrono::duration<double>(seconds));
}

// ---- Writing

template <Described T>
Json to_json(const T& object, Form form = Form::kMessage);

template <class T>
Json value_to_json(const T& value, const Rules& rules, Form form) {
  if constexpr (std::same_as<T, bool> || Number<T>) {
    return value;
  } else if constexpr (std::same_as<T, std::string>) {
    return form == Form::kStored ? value : line_of(value, rules.longest);
  } else if constexpr (kIsDuration<T>) {
    if (form == Form::kStored) return std::chrono::round<std::chrono::milliseconds>(value).count();
    return to_seconds(value);
  } else if constexpr (kIsTime<T>) {
    return value_to_json(value.time_since_epoch(), rules, form);
  } else if constexpr (Named<T>) {
    const auto number = static_cast<std::size_t>(value);
    return form == Form::kStored ? Json(number) : Json(names_of(value)[number]);
  } else if constexpr (kIsOptional<T>) {
    return value ? value_to_json(*value, rules, form) : Json();
  } else if constexpr (kIsOrNull<T>) {
    return value_to_json(value.value, rules, form);
  } else if constexpr (kIsMap<T>) {
    Json map = Json::object();
    for (const auto& [key, each] : value) map[key] = value_to_json(each, rules, form);
    return map;
  } else if constexpr (kIsList<T>) {
    Json list = Json::array();
    for (const auto& each : value) list.push_back(value_to_json(each, rules, form));
    return list;
  } else {
    return to_json(value, form);
  }
}

template <class T>
bool is_left_out(const T& value, const T& otherwise, const Rules& rules) {
  if constexpr (kIsOptional<T>)
    return !value;
  else if constexpr (kIsList<T>)
    return rules.if_set && value.empty();
  else if constexpr (Described<T> || kIsOrNull<T> || kIsMap<T>)
    return false;
  else
    return rules.if_set && value == otherwise;
}

inline std::string_view name_in(std::string_view name, const Rules& rules, Form form) {
  return form == Form::kStored && !rules.stored_as.empty() ? rules.stored_as : name;
}

template <Described T>
Json to_json(const T& object, Form form) {
  Json json = Json::object();
  [[maybe_unused]] static const T otherwise{};
  for_each_field<T>([&](const auto& field) {
    const auto& value = field.of(object);
    if ((form != Form::kStored || field.rules.if_set) && is_left_out(value, field.of(otherwise), field.rules)) return;
    json[std::string(name_in(field.name, field.rules, form))] = value_to_json(value, field.rules, form);
  });
  return json;
}

// ---- Reading: each gives what is wrong with the JSON, or an empty text

template <Described T>
std::string object_from_json(const Json& json, T& object, Form form);

std::string not_a_number(const Json& json, bool whole, const Rules& rules);
std::string not_a_text(const Rules& rules);
std::string not_one_of(const Json& json, const std::string_view* names, std::size_t count);
std::string unknown_field(const Json& json, const std::set<std::string_view>& known);

// Whether a number of this type can have the value.
template <Number T>
bool holds(const Json& json) {
  if constexpr (std::floating_point<T>)
    return json.is_number();
  else if (json.is_number_unsigned())
    return std::in_range<T>(json.get<std::uint64_t>());
  else
    return json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
}

template <class T>
std::string value_from_json(const Json& json, T& value, const Rules& rules, Form form) {
  const bool stored = form == Form::kStored;
  if constexpr (std::same_as<T, bool>) {
    if (!json.is_boolean()) return fmt::format("{} is neither true nor false", shown(json));
    value = json.get<bool>();
  } else if constexpr (Number<T>) {
    if (!holds<T>(json) || (!stored && !is_within(json.get<double>(), rules)))
      return not_a_number(json, std::integral<T>, rules);
    value = json.get<T>();
  } else if constexpr (std::same_as<T, std::string>) {
    if (stored ? !json.is_string() : !is_line(json, rules.longest)) return not_a_text(rules);
    value = json.get<std::string>();
    if (!stored && value.size() < rules.shortest) return "it is empty";
  } else if constexpr (kIsDuration<T>) {
    double seconds = 0;
    std::int64_t milliseconds = 0;
    Rules within = rules;
    within.least = std::max(rules.least, -kMostSeconds);
    within.most = std::min(rules.most, kMostSeconds);
    std::string wrong =
        stored ? value_from_json(json, milliseconds, within, form) : value_from_json(json, seconds, within, form);
    if (!wrong.empty()) return wrong;
    value = stored ? std::chrono::duration_cast<T>(std::chrono::milliseconds(milliseconds)) : from_seconds<T>(seconds);
  } else if constexpr (kIsTime<T>) {
    typename T::duration since{};
    std::string wrong = value_from_json(json, since, rules, form);
    if (!wrong.empty()) return wrong;
    value = T(since);
  } else if constexpr (Named<T>) {
    const auto& names = names_of(T());
    std::size_t number = 0;
    if (stored && json.is_number_unsigned())
      number = json.get<std::size_t>();
    else
      while (number < std::size(names) && json != names[number]) ++number;
    if (number >= std::size(names)) return not_one_of(json, std::data(names), std::size(names));
    value = static_cast<T>(number);
  } else if constexpr (kIsOrNull<T>) {
    if (json.is_null())
      value.value.reset();
    else
      return value_from_json(json, value.value.emplace(), rules, form);
  } else if constexpr (kIsOptional<T>) {
    if (!stored || !json.is_null()) return value_from_json(json, value.emplace(), rules, form);
    value.reset();
  } else if constexpr (kIsList<T>) {
    if (!json.is_array() || (!stored && json.size() > rules.entries))
      return fmt::format("not a list of at most {}", rules.entries);
    value.clear();
    for (const Json& each : json) {
      std::string wrong = value_from_json(each, value.emplace_back(), rules, form);
      if (!wrong.empty()) return fmt::format("entry {}: {}", value.size() - 1, wrong);
    }
  } else {
    return object_from_json(json, value, form);
  }
  return {};
}

template <Described T>
std::string object_from_json(const Json& json, T& object, Form form) {
  if (!json.is_object()) return fmt::format("{} is not an object", shown(json));
  std::set<std::string_view> known;
  std::string wrong;
  for_each_field<T>([&](const auto& field) {
    const std::string_view name = name_in(field.name, field.rules, form);
    known.insert(name);
    const auto found = json.find(name);
    if (!wrong.empty()) return;
    if (found != json.end()) {
      wrong = value_from_json(*found, field.of(object), field.rules, form);
      if (!wrong.empty()) wrong = fmt::format("{}: {}", name, wrong);
    } else if (field.rules.required || (form == Form::kStored && field.rules.always_stored)) {
      wrong = fmt::format("{} is missing", name);
    }
  });
  if (wrong.empty() && form == Form::kMessage) wrong = unknown_field(json, known);
  return wrong;
}

// Sets the fields that the JSON has; the others stay. `invalid_argument` names the field that is missing, unknown, or
// not as its rules want it.
template <Described T>
Status from_json(const Json& json, T& object, Form form = Form::kMessage) {
  if (std::string wrong = object_from_json(json, object, form); !wrong.empty())
    return failure(Code::kInvalidArgument, std::move(wrong));
  return {};
}

// `data_loss`: a value has not the type that the field had when it was stored, or a field is missing that always was.
template <Described T>
Status from_stored_json(const Json& json, T& object) {
  if (std::string wrong = object_from_json(json, object, Form::kStored); !wrong.empty())
    return failure(Code::kDataLoss, std::move(wrong));
  return {};
}

}  // namespace xoe::describe
