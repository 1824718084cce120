// Names and values that tell of a run or a machine.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xoe::pages {

using Facts = std::vector<std::pair<std::string, std::string>>;  // name, value

// Null where it is no JSON, or is nested so deeply that to print it would take too much of the stack.
nlohmann::ordered_json parse_shallow(std::string_view text);

// A member of an object; empty where there is none, or it is no text.
template <class Json>
std::string text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->template get<std::string>() : std::string();
}

// Names the fact that tells how many are left out.
inline constexpr std::string_view kLeftOutFacts = "left out";

// The members of an object, with spaces in place of "_" in their names, without "event". Of more than 200, the first
// ones and kLeftOutFacts.
Facts facts_of(const nlohmann::ordered_json& object);
// The same of a text; empty where it is no JSON object.
Facts facts_of_json(std::string_view text);

}  // namespace xoe::pages
