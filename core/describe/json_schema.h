// The schema of a struct with a table (field.h), as OpenAPI 3.1 and JSON Schema have it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "core/describe/json.h"

namespace xoe::describe {

using OrderedJson = nlohmann::ordered_json;  // in the order of the table

enum class Direction : std::uint8_t {
  kInput,   // what is accepted: ranges, lengths, defaults, and what must be there
  kOutput,  // what is given: no rules, and what is always there
};

// A struct that has a schema of its own, which others name: constexpr std::string_view schema_name_of(const Gpu*).
template <class T>
concept SchemaNamed = requires {
  schema_name_of(static_cast<const T*>(nullptr));
};

OrderedJson reference_to(std::string_view schema);
OrderedJson number_schema(bool whole, const Rules& rules, Direction direction);
OrderedJson text_schema(const Rules& rules, Direction direction);

template <Described T>
OrderedJson schema_of(Direction direction);

template <class T>
OrderedJson value_schema(const Rules& rules, Direction direction) {
  if constexpr (std::same_as<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (Number<T>) {
    return number_schema(std::integral<T>, rules, direction);
  } else if constexpr (kIsDuration<T> || kIsTime<T>) {
    return number_schema(false, rules, direction);
  } else if constexpr (std::same_as<T, std::string>) {
    return text_schema(rules, direction);
  } else if constexpr (Named<T>) {
    OrderedJson names = OrderedJson::array();
    for (const std::string_view name : names_of(T())) names.push_back(name);
    return {{"enum", names}};
  } else if constexpr (kIsOptional<T>) {
    return value_schema<typename T::value_type>(rules, direction);
  } else if constexpr (kIsOrNull<T>) {
    OrderedJson schema = value_schema<typename decltype(T::value)::value_type>(rules, direction);
    schema["type"] = {schema.at("type"), "null"};
    return schema;
  } else if constexpr (kIsMap<T>) {
    return {{"type", "object"}, {"additionalProperties", value_schema<typename T::mapped_type>(rules, direction)}};
  } else if constexpr (kIsList<T>) {
    OrderedJson schema{{"type", "array"}, {"items", value_schema<typename T::value_type>(rules, direction)}};
    if (direction == Direction::kInput) schema["maxItems"] = rules.entries;
    return schema;
  } else if constexpr (SchemaNamed<T>) {
    return reference_to(schema_name_of(static_cast<const T*>(nullptr)));
  } else {
    return schema_of<T>(direction);
  }
}

// Whether a reader of output can count on the field.
template <class T>
bool is_always_written(const Rules& rules) {
  return !rules.if_set && !kIsOptional<T>;
}

template <Described T>
OrderedJson schema_of(Direction direction) {
  OrderedJson properties = OrderedJson::object();
  OrderedJson required = OrderedJson::array();
  const T otherwise{};
  for_each_field<T>([&]<class F>(const F& field) {
    using Value = typename F::Value;
    OrderedJson property = value_schema<Value>(field.rules, direction);
    const bool is_required =
        direction == Direction::kInput ? field.rules.required : is_always_written<Value>(field.rules);
    if (is_required) required.push_back(field.name);
    if constexpr (Number<Value> || Named<Value> || kIsDuration<Value>)
      if (direction == Direction::kInput && !is_required)
        property["default"] = value_to_json(field.of(otherwise), field.rules, Form::kMessage);
    if (!field.rules.what.empty()) property["description"] = field.rules.what;
    properties[std::string(field.name)] = std::move(property);
  });
  OrderedJson schema{{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  schema["additionalProperties"] = false;
  return schema;
}

}  // namespace xoe::describe
