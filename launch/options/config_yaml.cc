// Horovod's configuration files: sections, and below each `name: value` with a plain value. No more of YAML than
// that is understood.
#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/options/config_file.h"
#include "launch/options/horovod_settings.h"

namespace xoe::launch {
namespace {

// Without its quotes, or without the comment behind it; nullopt when it is not a plain value.
std::optional<std::string> plain_value(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('"') || text.starts_with('\'')) {
    const auto end = text.find(text.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const auto rest = trimmed(text.substr(end + 1));
    if (!rest.empty() && !rest.starts_with('#')) return std::nullopt;
    const auto inside = text.substr(1, end - 1);
    if (text.front() == '"' && inside.find('\\') != std::string_view::npos) return std::nullopt;
    return std::string(inside);
  }
  if (const auto comment = text.find(" #"); comment != std::string_view::npos) text = trimmed(text.substr(0, comment));
  if (text.starts_with('#')) text = {};
  if (text.find_first_of("[]{}&*|>!%@`") == 0) return std::nullopt;
  return std::string(text);
}

Status apply_setting(std::string_view section, std::string_view key, const std::string& value, RunArguments& run) {
  if (value == "~" || value == "null") return {};
  const auto settings = horovod_settings();
  const auto setting = std::ranges::find_if(
      settings, [&](const HorovodSetting& one) { return one.section == section && one.key == key; });
  if (setting == settings.end())
    return failure(Code::kInvalidArgument, "there is no setting {} in the section {}", key, section);
  return apply_horovod_setting(*setting, value, run);
}

bool is_section(std::string_view name) {
  const auto settings = horovod_settings();
  return std::ranges::find(settings, name, &HorovodSetting::section) != settings.end();
}

// One line with content; `section` changes with it.
Status read_line_of(std::string_view line, std::string& section, RunArguments& run) {
  const bool indented = line.starts_with(' ');
  if (line.starts_with('\t')) return failure(Code::kInvalidArgument, "{}", "YAML is indented with spaces, not tabs");
  const auto colon = line.find(':');
  const std::string key(trimmed(line.substr(0, colon)));
  if (colon == std::string_view::npos || (colon + 1 < line.size() && line[colon + 1] != ' ' && line[colon + 1] != '\r'))
    return failure(Code::kInvalidArgument, "\"{}\": expected `name: value`", trimmed(line));
  const auto value = plain_value(line.substr(colon + 1));
  if (!value) return failure(Code::kInvalidArgument, "{}: expected a plain value", key);
  if (indented) {
    if (section.empty()) return failure(Code::kInvalidArgument, "{} stands in no section", key);
    return apply_setting(section, key, *value, run);
  }
  if (!is_section(key) || !value->empty())
    return failure(Code::kInvalidArgument,
                   "{}: expected one of the sections params, autotune, timeline, stall_check, library_options, logging",
                   key);
  section = key;
  return {};
}

}  // namespace

Status read_yaml_config(std::string_view text, std::string_view path, RunArguments& run) {
  std::string section;
  std::size_t number = 0;
  for (const std::string& line : split_text(text, '\n')) {
    ++number;
    const auto content = trimmed(line);
    if (content.empty() || content.starts_with('#') || content == "---") continue;
    if (const auto read = read_line_of(line, section, run); !read)
      return failure(Code::kInvalidArgument, "{} line {}: {}", path, number, read.error().message());
  }
  return {};
}

}  // namespace xoe::launch
