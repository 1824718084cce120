// A process that outlives this one.
#pragma once

#include <functional>

#include "xoe/status.h"

namespace xoe::tools::pool {

// It has a copy of this process, runs `run`, and ends. It is no child of this process: a program that waits for all of
// its children does not meet it. For a program with one thread.
Status start_detached(std::function<void()> run);

}  // namespace xoe::tools::pool
