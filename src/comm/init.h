// init() with the environment as an argument, for tests, and with what the layers above need.
#pragma once

#include <functional>
#include <string>

#include "base/env.h"
#include "bootstrap/world_page.h"
#include "xoe/communicator.h"

namespace xoe {

// Receives warnings, one line each.
using Warn = std::function<void(const std::string&)>;

struct Joined {
  Communicator world;
  // 32 bytes that only the ranks know that joined together, for this time: what they send each other can be
  // authenticated with it.
  std::string key;
  // Numeric, of this host, at which ranks on other hosts reach this process.
  std::string address = "127.0.0.1";
  bool encrypts = false;  // what leaves this host
  // How often the world has formed again after restarts of ranks and changes of their number; 0: this is the first.
  int version = 0;
  // What the launcher wants of this rank.
  bootstrap::WorldView view = {};
  bootstrap::WorldView::Wish wish() const noexcept { return view.wish(version); }
};

// Builds something on a world that has just formed. It may take the world.
using OnJoined = std::function<Status(Joined&)>;

// warn: empty for standard error. on_joined: fails with the world that it is given, if a rank dies meanwhile; where
// another version of the world follows, this joins that one, and calls it again.
Result<Joined> join(const Env& env, const InitOptions& options, Warn warn = {}, const OnJoined& on_joined = {});

Result<Communicator> init_from(const Env& env, const InitOptions& options);

}  // namespace xoe
