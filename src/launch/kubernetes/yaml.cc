#include "launch/kubernetes/yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"

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

std::string double_quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result.append({'\\', c});
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      result += c;
  }
  return result + '"';
}

}  // namespace

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
