#include "core/describe/json.h"

#include <fmt/ranges.h>

#include "core/base/utf8.h"

namespace xoe::describe {

std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 64;
  if (value.is_structured()) return value.type_name();
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

std::string line_of(std::string_view text, std::size_t longest) {
  std::string line = utf8_line(text.substr(0, longest));
  // A byte may become a character of three.
  if (line.size() > longest) line = utf8_line(text.substr(0, longest / 3));
  return line;
}

bool is_line(const Json& json, std::size_t longest) {
  if (!json.is_string() || json.get_ref<const std::string&>().size() > longest) return false;
  return utf8_line(json.get_ref<const std::string&>()) == json.get_ref<const std::string&>();
}

std::string not_a_number(const Json& json, bool whole, const Rules& rules) {
  const bool open = rules.above > rules.least;
  return fmt::format("{} is not a{} number {} {} to {}", shown(json), whole ? " whole" : "", open ? "above" : "from",
                     open ? rules.above : rules.least, rules.most);
}

std::string not_a_text(const Rules& rules) {
  return fmt::format("not one line of at most {} bytes of UTF-8", rules.longest);
}

std::string not_one_of(const Json& json, const std::string_view* names, std::size_t count) {
  return fmt::format("{} is none of {}", shown(json), fmt::join(names, names + count, ", "));
}

std::string unknown_field(const Json& json, const std::set<std::string_view>& known) {
  constexpr std::size_t kLongest = 64;
  for (const auto& [name, value] : json.items())
    if (!known.contains(name)) return fmt::format("unknown field \"{}\"", name.substr(0, kLongest));
  return {};
}

}  // namespace xoe::describe
