// Measures collectives and copies, for the tuner's model.
#pragma once

#include "engine/tuning/knobs.h"
#include "xoe/communicator.h"

namespace xoe::engine {

// Collective; takes a few hundred microseconds on one host. Takes the best of several tries: the machine may be shared.
Result<Speeds> measure_speeds(Communicator& comm);

}  // namespace xoe::engine
