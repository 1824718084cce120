// What Horovod's environment variables mean to Xoe.
#pragma once

#include <optional>
#include <string_view>

namespace xoe::engine {

// Why a variable HOROVOD_... has no meaning here, and what to use instead. nullopt: it has one.
std::optional<std::string_view> why_no_meaning(std::string_view name);

}  // namespace xoe::engine
