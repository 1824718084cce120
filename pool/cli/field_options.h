// Options that become members of a request to the pool, from the lines of a table that have one
// (core/describe/field.h).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/describe/field.h"
#include "pool/cli/verbs.h"

namespace xoe::tools::pool {

// Those of one group of the table. `body` outlives the parsing; what is not given is not in it.
template <describe::Described T>
void add_field_options(CLI::App& verb, Json& body, std::string_view group = {}) {
  static const T defaults;
  std::string_view current;
  describe::for_each_field<T>([&](const auto& field) {
    using Value = typename std::remove_cvref_t<decltype(field)>::Value;
    const describe::Rules& rules = field.rules;
    if (!rules.group.empty()) current = rules.group;
    if (!rules.option || current != group) return;
    std::string name = "--" + std::string(field.name);
    std::ranges::replace(name, '_', '-');
    const std::string what(rules.what);
    if constexpr (std::same_as<Value, bool>) {
      add_member_flag(verb, body, name, field.name.data(), what);
    } else if constexpr (std::same_as<Value, int>) {
      add_member<int>(verb, body, name, field.name.data(), what)->default_str(std::to_string(field.of(defaults)));
    } else if constexpr (describe::Named<Value>) {
      const auto names = names_of(Value());
      add_member<std::string>(verb, body, name, field.name.data(), what)
          ->type_name(fmt::format("{}", fmt::join(names, "|")))
          ->default_str(std::string(names[static_cast<std::size_t>(field.of(defaults))]));
    } else if constexpr (std::same_as<Value, std::string>) {
      add_member<std::string>(verb, body, name, field.name.data(), what)
          ->type_name(std::string(rules.placeholder.empty() ? "TEXT" : rules.placeholder));
    } else {
      throw std::logic_error(name + ": a value of its type cannot be read from the command line");
    }
  });
}

}  // namespace xoe::tools::pool
