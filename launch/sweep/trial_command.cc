#include "launch/sweep/trial_command.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::launch {
namespace {

bool belongs_to_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

std::optional<double> number_at(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  const auto end = text.find_first_not_of("0123456789+-.eE");
  return parse_number(text.substr(0, end));
}

}  // namespace

std::vector<std::string> command_of(const std::vector<std::string>& command, const Trial& trial, std::size_t number,
                                    const std::string& folder) {
  Trial known = trial;
  known.emplace_back("trial", std::to_string(number));
  known.emplace_back("dir", folder);
  std::set<std::string> named;
  std::vector<std::string> words;
  for (const std::string& word : command) {
    std::string filled;
    for (std::size_t at = 0; at < word.size();) {
      const auto close = word[at] == '{' ? word.find('}', at) : std::string::npos;
      const auto one = close == std::string::npos
                           ? known.end()
                           : std::ranges::find(known, word.substr(at + 1, close - at - 1), &Trial::value_type::first);
      if (one == known.end()) {
        filled.push_back(word[at++]);
        continue;
      }
      filled += one->second;
      named.insert(one->first);
      at = close + 1;
    }
    words.push_back(std::move(filled));
  }
  for (const auto& [name, value] : trial)
    if (!named.contains(name)) words.push_back(fmt::format("--{}={}", name, value));
  return words;
}

std::optional<double> last_value(std::string_view text, std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (std::size_t end = text.size(), at = 0; end > 0; end = at) {
    at = text.substr(0, end).rfind(name);
    if (at == std::string_view::npos) return std::nullopt;
    std::string_view rest = text.substr(at + name.size());
    const char before = at == 0 ? ' ' : text[at - 1];
    if (before == '"' && rest.starts_with('"'))
      rest.remove_prefix(1);
    else if (belongs_to_word(before))
      continue;
    if (!rest.starts_with('=') && !rest.starts_with(':')) continue;
    if (const auto value = number_at(rest.substr(1))) return value;
  }
  return std::nullopt;
}

}  // namespace xoe::launch
