// JSON that loses no byte of a name.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/base/utf8.h"
#include "data/cli/verbs/verbs.h"

namespace xoe::tools {
namespace {

using Json = nlohmann::ordered_json;

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void escape_strings(Json& json, const Json::json_pointer& pointer, std::vector<std::string>& escaped) {
  if (json.is_string() && !is_utf8(json.get_ref<const std::string&>())) {
    json = escape_bytes(json.get_ref<const std::string&>());
    escaped.push_back(pointer.to_string());
  } else if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) escape_strings(json[i], pointer / i, escaped);
  } else if (json.is_object()) {
    Json members = Json::object();
    for (auto& [name, value] : json.items()) {
      const bool right = is_utf8(name);
      const std::string key = right ? name : escape_bytes(name);
      const Json::json_pointer where = pointer / key;
      if (!right) escaped.push_back(where.to_string());
      escape_strings(value, where, escaped);
      members[key] = std::move(value);
    }
    json = std::move(members);
  }
}

}  // namespace

std::string escape_bytes(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    else if (text[0] == '\\')
      out += "\\\\";
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string json_text(Json object, int indent) {
  std::vector<std::string> escaped;
  escape_strings(object, Json::json_pointer(), escaped);
  if (!escaped.empty()) object["escaped"] = escaped;
  return object.dump(indent, ' ', false, Json::error_handler_t::strict);
}

}  // namespace xoe::tools
