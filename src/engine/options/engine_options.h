// read_engine_options() with the environment as an argument, for tests.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "xoe/engine.h"

namespace xoe {

// XOE_ variables override HOROVOD_ ones. `warnings` receives a line with the name of each HOROVOD_ variable that is set
// and has no meaning here.
Result<EngineOptions> read_engine_options(const Env& env, std::vector<std::string>& warnings);

}  // namespace xoe
