// `xoe run`.
#pragma once

#include <span>
#include <string_view>

namespace xoe::tools {

// `arguments` follow the word `run`. Returns the exit code.
int run(std::span<const std::string_view> arguments);

}  // namespace xoe::tools
