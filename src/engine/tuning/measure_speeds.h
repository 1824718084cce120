// How fast collectives and copies are here, for the tuner's model.
#pragma once

#include "engine/tuning/knobs.h"
#include "xoe/communicator.h"

namespace xoe::engine {

// Collective; a few hundred microseconds on one host. The best of some tries, since others may use the machine.
Result<Speeds> measure_speeds(Communicator& comm);

}  // namespace xoe::engine
