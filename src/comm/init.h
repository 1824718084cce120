// init() with the environment as an argument, for tests.
#pragma once

#include "base/env.h"
#include "xoe/communicator.h"

namespace xoe {

Result<Communicator> init_from(const Env& env, const InitOptions& options);

}  // namespace xoe
