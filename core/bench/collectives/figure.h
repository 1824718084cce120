// One figure: check the answer, find out how long a call takes, then take samples.
#pragma once

#include <string>

#include "core/bench/collectives/harness.h"
#include "core/bench/collectives/sync.h"

namespace xoe::bench {

const char* collective_text(int collective);
const char* dtype_text(int dtype);
std::size_t dtype_bytes(int dtype);

// Runs state().plan on this rank. On rank 0 `line` receives the JSON answer. False: this engine is of no more use.
bool run_figure(Sync& sync, const XoeBenchEngine& engine, std::string& line);

}  // namespace xoe::bench
