// The little YAML that manifests need: text in blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xoe::launch {

// As a scalar that is this text, whatever is in it: in double quotes unless it is a plain word.
std::string yaml_text(std::string_view text);
// ["a", "b"], on one line.
std::string yaml_list(const std::vector<std::string>& texts);
// Each line that is not empty, `by` blanks further to the right.
std::string indented(std::string_view text, int by);

}  // namespace xoe::launch
