// Runs work that may crash or hang in a process of its own: foreign libraries and drivers.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "xoe/status.h"

namespace xoe::remote {

// Runs `work` in a forked child and returns its result, at most 4 MiB. Output that the work prints is dropped.
// `timeout`: it took longer and was killed; `internal`: it crashed, and how. Call it where no other thread runs.
Result<std::string> run_in_child(const std::function<std::string()>& work, std::chrono::milliseconds timeout);

}  // namespace xoe::remote
