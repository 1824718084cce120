// `xoe torchrun`.
#pragma once

#include <span>
#include <string_view>

namespace xoe::tools {

// `arguments` follow the word `torchrun`. Returns the exit code.
int torchrun(std::span<const std::string_view> arguments);

}  // namespace xoe::tools
