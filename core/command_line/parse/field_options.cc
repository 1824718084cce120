#include "core/command_line/parse/field_options.h"

#include <algorithm>

#include "core/base/text.h"

namespace xoe::tools {

std::string option_name(std::string_view field) {
  std::string name = "--" + std::string(field);
  std::ranges::replace(name, '_', '-');
  return name;
}

std::vector<std::string> words_of(std::string_view choices) {
  std::vector<std::string> words;
  for (const std::string& word : split_text(choices, ',')) words.emplace_back(trimmed(word));
  return words;
}

}  // namespace xoe::tools
