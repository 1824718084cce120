#include "launch/sweep/trial_command.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::launch {
namespace {

bool belongs_to_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

// A training that diverges prints no number, in one of these words.
bool is_no_number(std::string_view word) {
  std::string small;
  for (const char c : word) small.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  constexpr std::array<std::string_view, 7> kWords{"nan", "-nan", "inf", "+inf", "-inf", "infinity", "-infinity"};
  return std::ranges::find(kWords, small) != kWords.end() || small == "null" || small == "none";
}

// Rank 0's lines, of those that `xoe run` has put the ranks' numbers before.
std::string lines_of_first(std::string_view text) {
  std::string lines;
  for (const std::string& line : split_text(text, '\n'))
    if (line.starts_with("[0] ")) lines += line + "\n";
  return lines;
}

std::optional<double> number_at(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  const auto end = std::ranges::find_if(
      text, [](unsigned char c) { return std::isalnum(c) == 0 && c != '+' && c != '-' && c != '.'; });
  std::string_view word = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  if (is_no_number(word)) return std::numeric_limits<double>::quiet_NaN();
  if (word.ends_with('.') && word.size() > 1) word.remove_suffix(1);  // the end of a sentence
  const auto stop = word.find_first_not_of("0123456789+-.eE");
  return parse_number(word.substr(0, stop));
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

std::optional<double> last_value(std::string_view all, std::string_view name) {
  if (name.empty()) return std::nullopt;
  const std::string first = lines_of_first(all);
  const std::string_view text = first.empty() ? all : first;
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
