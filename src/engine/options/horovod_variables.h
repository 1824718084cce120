// The meaning of Horovod's environment variables.
#pragma once

#include <optional>
#include <string_view>

namespace xoe::engine {

// The reason why a variable HOROVOD_... has no meaning here, and its replacement. nullopt: it has a meaning.
std::optional<std::string_view> why_no_meaning(std::string_view name);

}  // namespace xoe::engine
