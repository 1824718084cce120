// The parts of elastic::World.
#pragma once

#include <memory>

#include "core/comm/joined.h"
#include "xoe/elastic.h"

namespace xoe::elastic {

struct World::Parts {
  Joined joined;
  EngineOptions engine_options = {};
  std::unique_ptr<Engine> engine = {};  // last: it ends before the communicator that it was split off from
};

}  // namespace xoe::elastic
