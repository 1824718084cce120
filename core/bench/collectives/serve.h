// The ranks of an engine under test: commands come in, figures go out.
#pragma once

#include <functional>
#include <string>

#include "core/bench/collectives/sync.h"

namespace xoe::bench {

// Rank 0: puts a command into the shared plan. False: it is none.
using Parse = std::function<bool(Sync& sync, const std::string& command)>;
// All ranks: carries the plan out. On rank 0 `line` receives the JSON answer. False: this engine is of no more use.
using Run = std::function<bool(Sync& sync, std::string& line)>;

// Serves commands until standard input ends. `path` may be null: an error. Returns the process's exit code.
int serve(const char* path, int rank, int size, const Parse& parse, const Run& run);

}  // namespace xoe::bench
