// init() with the environment as an argument, for tests, and with what the layers above need.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/env.h"
#include "core/comm/joined.h"
#include "xoe/communicator.h"

namespace xoe {

// Builds something on a world that has just formed. It may take the world.
using OnJoined = std::function<Status(Joined&)>;

// When the launcher is told that a version of the world has formed.
enum class TellsFormed : std::uint8_t {
  kAtOnce,
  kLater,  // by the caller, once newcomers have what they need: until then the others can do without them
};

// warn: empty for standard error. on_joined: fails with the world that it is given, if a rank dies meanwhile; where
// another version of the world follows, this joins that one, and calls it again.
Result<Joined> join(const Env& env, const InitOptions& options, Warn warn = {}, const OnJoined& on_joined = {},
                    TellsFormed tells = TellsFormed::kAtOnce);

Result<Communicator> init_from(const Env& env, const InitOptions& options);

}  // namespace xoe
