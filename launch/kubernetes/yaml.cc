#include "launch/kubernetes/yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "core/base/text.h"
#include "core/base/utf8.h"

namespace xoe::launch {
namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// Begins with a letter or a slash, so that it is no number, and has nothing that YAML reads as more than text.
bool is_plain(std::string_view text) {
  constexpr std::string_view kWords[] = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"};
  std::string small(text);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return !text.empty() && (is_letter(text.front()) || text.front() == '/') &&
         std::ranges::find(kWords, small) == std::end(kWords) && std::ranges::all_of(text, [](char c) {
           return is_letter(c) || (c >= '0' && c <= '9') || std::string_view("._/-").find(c) != std::string_view::npos;
         });
}

std::uint32_t code_point(std::string_view character) {
  auto code = static_cast<std::uint32_t>(static_cast<unsigned char>(character[0]));
  if (character.size() == 1) return code;
  code &= 0x7fU >> character.size();
  for (const char c : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3fU);
  return code;
}

std::string double_quoted(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const std::string_view character = text.substr(0, std::max<std::size_t>(1, utf8_length(text)));
    text.remove_prefix(character.size());
    if (!is_yaml_character(character))
      result += fmt::format("\\u{:04x}", code_point(character));
    else
      result.append(character == "\"" || character == "\\" ? "\\" : "").append(character);
  }
  return result + '"';
}

}  // namespace

bool is_yaml_character(std::string_view character) {
  const std::uint32_t code = code_point(character);
  const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool breaks_line = code == 0x2028 || code == 0x2029;
  return !control && !breaks_line && code != 0xfeff && code != 0xfffe && code != 0xffff;
}

std::string yaml_text(std::string_view text) { return is_plain(text) ? std::string(text) : double_quoted(text); }

std::string yaml_list(const std::vector<std::string>& texts) {
  std::string result = "[";
  for (const std::string& text : texts) result += (result.size() > 1 ? ", " : "") + double_quoted(text);
  return result + "]";
}

std::string indented(std::string_view text, int by) {
  std::string result;
  for (const std::string& line : split_text(text.ends_with('\n') ? text.substr(0, text.size() - 1) : text, '\n'))
    result += line.empty() ? "\n" : fmt::format("{:{}}{}\n", "", by, line);
  return result;
}

}  // namespace xoe::launch
