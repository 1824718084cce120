// The engine's options from environment variables.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/env.h"
#include "xoe/engine.h"

namespace xoe {

// XOE_ variables override HOROVOD_ ones. `warnings` receives a line with the name of each HOROVOD_ variable that is set
// and has no meaning here.
Result<EngineOptions> read_engine_options(const Env& env, std::vector<std::string>& warnings);

namespace engine {

// Horovod's variable for a field of EngineOptions; nullopt: it has none.
std::optional<std::string_view> horovod_name(std::string_view field);

// The reason why a variable HOROVOD_... has no meaning here, and its replacement. nullopt: it has a meaning.
std::optional<std::string_view> why_no_meaning(std::string_view name);

}  // namespace engine
}  // namespace xoe
