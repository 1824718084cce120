// Joined is the result of joining the other ranks.
#pragma once

#include <functional>
#include <string>

#include "core/bootstrap/world_page.h"
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
  // Tells the launcher that all members have gone over to this version; there where join() was to leave that to its
  // caller. For rank 0.
  std::function<void()> tell_formed = {};
  // Shows the launcher's requests to this rank.
  bootstrap::WorldView view = {};
  bootstrap::WorldView::Change change() const noexcept { return view.change(version); }
};

}  // namespace xoe
