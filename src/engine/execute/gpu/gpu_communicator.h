// Runs NCCL collectives of one process set in a thread of its own, so that the engine's thread never blocks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/net/net.h"
#include "engine/execute/gpu/gpu_plugin.h"
#include "xoe/status.h"

namespace xoe::engine {

// A collective on GPU memory, with everything that it points at.
struct GpuCollective {
  Collective collective = {};  // its spans and its name are set to the members below
  std::string name = {};
  std::vector<Segment> segments = {};
  std::vector<std::size_t> send_counts = {}, recv_counts = {};
  std::vector<std::shared_ptr<const void>> after = {};  // marks of Provider::admit()
};

// For one thread at a time: the one that makes progress.
class GpuCommunicator {
 public:
  // wake: called by any thread when test() of a handle changes; must not call this object.
  GpuCommunicator(std::shared_ptr<GpuPlugin> plugin, net::Members members, std::function<void()> wake);
  // Leaves the group. If nothing failed it waits for the peers a little: NCCL reports a peer that ends early also to
  // ranks whose collectives have completed.
  ~GpuCommunicator();

  // Connecting takes several exchanges among the ranks, which the caller makes. The handle is done when the next one
  // can be made, or when connecting has ended: then connected() is true, and the handle fails if it went wrong.
  Result<Handle> next_step();
  bool connected() const;
  std::string given() const;  // this rank's part of the exchange
  void answer(std::vector<std::string> all);

  // Starts a collective; they run in order. REQUIRES: connected().
  Result<Handle> start(GpuCollective job);

  // Aborts the collectives under way and refuses later ones. When it returns no buffer is in use, and `wake` is not
  // called any more. failed: does not wait for the peers.
  void stop(bool failed) noexcept;

 private:
  struct State;
  class Step;
  class Work;

  std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace xoe::engine
