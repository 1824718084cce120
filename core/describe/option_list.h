// The options of a struct with a table (text.h) as JSON, for other languages.
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

}  // namespace xoe::describe
