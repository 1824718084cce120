#include "measure/pages/facts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace xoe::pages {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepest = 64;  // of nested brackets
constexpr std::size_t kMostFacts = 200;

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_null()) return "none";
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  std::string text;
  if (value.is_structured()) {
    for (const auto& [key, part] : value.items()) {
      if (!text.empty()) text += value.is_array() ? " " : ", ";
      if (value.is_object()) text += key + "=";
      text += part.is_structured() ? part.dump(-1, ' ', false, Json::error_handler_t::replace) : text_of(part);
    }
    return text;
  }
  return value.dump();
}

}  // namespace

Json parse_shallow(std::string_view text) {
  bool too_deep = false;
  Json json = Json::parse(
      text,
      [&too_deep](int depth, Json::parse_event_t, Json&) {
        too_deep = too_deep || depth > kDeepest;
        return !too_deep;
      },
      /*allow_exceptions=*/false);
  return too_deep ? Json() : json;
}

Facts facts_of(const Json& object) {
  Facts facts;
  std::size_t members = 0;
  for (const auto& [key, value] : object.items()) {
    if (key == "event") continue;
    if (++members > kMostFacts) continue;
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    facts.emplace_back(std::move(name), text_of(value));
  }
  if (members > kMostFacts)
    facts.emplace_back(kLeftOutFacts, fmt::format("{} of {} members, which are more than a table shows",
                                                  members - kMostFacts, members));
  return facts;
}

Facts facts_of_json(std::string_view text) {
  const Json json = parse_shallow(text);
  return json.is_object() ? facts_of(json) : Facts();
}

}  // namespace xoe::pages
