// Structs with a table (text.h) as JSON: their options for other languages, their values for records of a run.
#pragma once

#include <nlohmann/json.hpp>

#include "core/describe/text.h"

namespace xoe::describe {

// A list with the members name, group, default, choices, what, and is_flag, all texts but the last.
template <Described T>
nlohmann::ordered_json options_json() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Option& option : options_of<T>())
    list.push_back({{"name", option.name},
                    {"group", option.group},
                    {"default", option.otherwise},
                    {"choices", option.choices},
                    {"is_flag", option.is_flag},
                    {"what", option.what}});
  return list;
}

// A member for each field, under the name that records have for it (Rules::stored_as). Numbers and switches are
// themselves, other values texts, an optional one that is not there null. A value at its default is left out where the
// rules say so (Rules::if_set).
template <Described T>
nlohmann::ordered_json values_json(const T& object) {
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  const T defaults{};
  for_each_field<T>([&]<class F>(const F& field) {
    using Value = typename F::Value;
    const Rules& rules = field.rules;
    const Value& value = field.of(object);
    const std::string text = write_text(value, rules);
    if (rules.if_set && text == write_text(field.of(defaults), rules)) return;
    auto& member = values[std::string(rules.stored_as.empty() ? field.name : rules.stored_as)];
    if constexpr (Number<Value>)
      member = value;
    else if constexpr (kIsOptional<Value>)
      member = value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
    else
      member = text;
  });
  return values;
}

}  // namespace xoe::describe
