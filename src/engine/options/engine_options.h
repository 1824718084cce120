// read_engine_options() with the environment as an argument, for tests.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "xoe/engine.h"

namespace xoe {

// XOE_ wins over HOROVOD_. `warnings` receives a line for each HOROVOD_ variable that is set and has no meaning here,
// by name.
Result<EngineOptions> read_engine_options(const Env& env, std::vector<std::string>& warnings);

}  // namespace xoe
