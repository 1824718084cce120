// The little YAML that manifests need: text in blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xoe::launch {

// Whether YAML may hold the character (its code point in UTF-8) as it is: no control, and no break of a line.
bool is_yaml_character(std::string_view character);
// As a scalar that is this text, which is UTF-8, whatever is in it: in double quotes unless it is a plain word.
std::string yaml_text(std::string_view text);
// ["a", "b"], on one line.
std::string yaml_list(const std::vector<std::string>& texts);
// Each line that is not empty, `by` blanks further to the right.
std::string indented(std::string_view text, int by);

}  // namespace xoe::launch
