// NCCL between the ranks of one process set, in a thread of its own: the engine's thread never blocks.
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

// A collective of GPU memory with all that it refers to.
struct GpuCollective {
  Collective collective = {};  // its spans and its name are taken from below
  std::string name = {};
  std::vector<Segment> segments = {};
  std::vector<std::size_t> send_counts = {}, recv_counts = {};
  std::vector<std::shared_ptr<const void>> after = {};  // marks of Provider::admit()
};

// One thread at a time, the engine's that drives.
class GpuCommunicator {
 public:
  // wake: called when test() of a handle would answer differently; any thread, and it must not call this.
  GpuCommunicator(std::shared_ptr<GpuPlugin> plugin, net::Members members, std::function<void()> wake);
  // Takes leave of the others where nothing failed, which waits for them a little: NCCL shows an early end to peers
  // that have not noticed yet that they are done.
  ~GpuCommunicator();

  // Joining the others takes several exchanges, which the caller makes. The handle is done when there is one to make,
  // or when joining has ended: then connected() is true, and the handle fails if it went wrong.
  Result<Handle> next_step();
  bool connected() const;
  std::string given() const;  // what this rank tells the others
  void answer(std::vector<std::string> all);

  // Starts a collective, behind those before. REQUIRES: connected().
  Result<Handle> start(GpuCollective job);

  // Gives up what is under way and all that comes. When it returns no buffer is used any more, and nothing is woken.
  // failed: the others are not waited for.
  void stop(bool failed) noexcept;

 private:
  struct State;
  class Step;
  class Work;

  std::shared_ptr<State> state_;  // the thread's too
};

}  // namespace xoe::engine
