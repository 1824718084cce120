// Options of a command line that set the fields of a struct, from the lines of its table (core/describe/field.h): name,
// help, default, range and choices stand there.
#pragma once

#include <CLI/CLI.hpp>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/command_line/parse/command_line.h"
#include "core/describe/text.h"

namespace xoe::tools {

// "--lr-batch" for the field lr_batch.
std::string option_name(std::string_view field);
// "nchw, nhwc" as words.
std::vector<std::string> words_of(std::string_view choices);

// A field's value, or that of an optional field.
template <class T>
struct FieldValue {
  using Type = T;
};
template <class T>
struct FieldValue<std::optional<T>> {
  using Type = T;
};

// Throws the parser's error where the text is no such value, or not in its range.
template <class T>
T read_option(const std::string& name, const std::string& text, const describe::Rules& rules) {
  const auto value = describe::read_text<T>(text, rules);
  bool good = value.has_value();
  if constexpr (describe::Number<T>)
    good = good && ((rules.automatic && text == "auto") || describe::is_within(static_cast<double>(*value), rules));
  if (good) return *value;
  const std::string choices = describe::choices_of<T>(rules);
  throw CLI::ValidationError(std::is_enum_v<T> ? wrong_choice(name, text, words_of(choices))
                                               : fmt::format("{} {}: expected {}", name, text, choices),
                             CLI::ExitCodes::ValidationError);
}

// The help shows this for a value: N, X, or the words that it may be.
template <class T>
std::string value_name(const describe::Rules& rules) {
  if (!rules.placeholder.empty()) return std::string(rules.placeholder);
  if constexpr (std::is_enum_v<T>) return CLI::detail::join(words_of(describe::choices_of<T>(rules)), "|");
  return std::integral<T> ? "N" : std::floating_point<T> ? "X" : "TEXT";
}

// One option, which the command line may call by other names than the table: "--batch-size,--batch"; messages have the
// first.
template <auto... kPath, class T>
CLI::Option* add_option_of(CLI::App& app, const describe::Field<kPath...>& field, T& object, std::string name = {}) {
  using Stored = typename describe::Field<kPath...>::Value;
  using Value = typename FieldValue<Stored>::Type;
  const describe::Rules& rules = field.rules;
  if (name.empty()) name = option_name(field.name);
  const std::string what(rules.what);
  Stored& stored = field.of(object);
  if constexpr (std::same_as<Value, bool>) {
    return app.add_flag(stored ? fmt::format("{},!--no-{}", name, name.substr(2)) : name, stored, what);
  } else {
    const auto set = [&stored, first = name.substr(0, name.find(',')), rules](const std::string& text) {
      stored = read_option<Value>(first, text, rules);
    };
    CLI::Option* const option = app.add_option_function<std::string>(name, set, what);
    option->type_name(value_name<Value>(rules));
    if (!rules.otherwise.empty())
      option->default_str(std::string(rules.otherwise));
    else if constexpr (std::same_as<Stored, Value>)
      option->default_str(describe::write_text(stored, rules));
    return option;
  }
}

// Those of one group of the table; by default of the lines before any group.
template <describe::Described T>
void add_field_options(CLI::App& app, T& object, std::string_view group = {}) {
  std::string_view current;
  describe::for_each_field<T>([&](const auto& field) {
    if (!field.rules.group.empty()) current = field.rules.group;
    if (field.rules.option && current == group) add_option_of(app, field, object);
  });
}

// The option of one field, by its members: add_field_option<&TrainOptions::batch>(app, options, "--batch-size").
template <auto... kPath, class T>
CLI::Option* add_field_option(CLI::App& app, T& object, std::string name = {}) {
  return add_option_of(app, describe::line_of<kPath...>(), object, std::move(name));
}

}  // namespace xoe::tools
