#include "data/cli/verbs/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/utf8.h"

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

// Of a JSON Pointer: ~ and / have another meaning there.
std::string pointer_part(std::string_view key) {
  std::string part;
  for (const char c : key) {
    if (c == '~' || c == '/')
      part += c == '~' ? "~0" : "~1";
    else
      part += c;
  }
  return part;
}

void escape_strings(Json& json, const std::string& pointer, std::vector<std::string>& escaped) {
  if (json.is_string() && !is_utf8(json.get_ref<const std::string&>())) {
    json = escape_bytes(json.get_ref<const std::string&>());
    escaped.push_back(pointer);
  } else if (json.is_array()) {
    for (std::size_t i = 0; i < json.size(); ++i) escape_strings(json[i], fmt::format("{}/{}", pointer, i), escaped);
  } else if (json.is_object()) {
    Json members = Json::object();
    for (auto& [name, value] : json.items()) {
      const bool right = is_utf8(name);
      const std::string key = right ? name : escape_bytes(name);
      const std::string where = pointer + "/" + pointer_part(key);
      if (!right) escaped.push_back(where);
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
  escape_strings(object, "", escaped);
  if (!escaped.empty()) object["escaped"] = escaped;
  return object.dump(indent, ' ', false, Json::error_handler_t::strict);
}

}  // namespace xoe::tools
