// The GPUs of one process set: how their memory is reduced, and NCCL's collectives in a thread of their own, so that
// the engine's thread never blocks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/gpu_transport.h"
#include "core/backend/net/net.h"
#include "core/engine/execute/gpu/gpu_copies.h"
#include "core/engine/execute/gpu/gpu_plugin.h"
#include "xoe/status.h"

namespace xoe::engine {

// Factors before and after a reduction that the host makes. NCCL applies Collective::prescale instead.
struct ReductionFactors {
  double before = 1, after = 1;
};

// A collective on GPU memory, with everything that it points at.
struct GpuCollective {
  Collective collective = {};  // without what the members below hold
  std::string name = {};
  std::vector<Segment> segments = {};
  std::vector<ReductionFactors> factors = {};  // of a reduction: of each segment, or of its one array
  std::vector<std::size_t> send_counts = {}, recv_counts = {};
  std::vector<std::shared_ptr<const void>> after = {};  // marks of Provider::admit()
  // Called by NCCL's thread, as LaunchListener says; staging does not call it.
  std::function<void(const std::shared_ptr<const void>& event)> on_launch = {};

  // The collective with everything but the marks. It refers to this object.
  Collective view() const;
};

// For one thread at a time: the one that makes progress.
class GpuCommunicator {
 public:
  // wake: called by any thread when test() of a handle changes; must not call this object. say: takes a line of text
  // for the user.
  GpuCommunicator(std::shared_ptr<GpuPlugin> plugin, net::Members members, std::function<void()> wake,
                  std::function<void(std::string_view)> say);
  // Leaves the group. If nothing failed it waits for the peers a little: NCCL reports a peer that ends early also to
  // ranks whose collectives have completed.
  ~GpuCommunicator();

  // Connecting takes several exchanges among the ranks, which the caller makes. The handle is done when the next one
  // can be made, or when connecting has ended: then connected() is true, and the handle fails if it went wrong.
  Result<Handle> next_step();
  bool connected() const;
  std::string given() const;  // this rank's part of the exchange
  void answer(std::vector<std::string> all);

  // REQUIRES, here and below: connected(), without an error.
  const GpuChoice& choice() const;
  // Whether NCCL makes this collective; the same on all ranks. Otherwise it must be staged, with copies().
  bool takes(const Collective& collective) const;
  // Starts a collective of NCCL's; they run in order. REQUIRES: takes() it.
  Result<Handle> start(GpuCollective job);
  // Says, once for the group, that NCCL does not join it, and why; not if the user asked for staging.
  void warn_if_staged() const;
  GpuCopies& copies() noexcept { return copies_; }

  // Aborts the collectives and copies under way and refuses later ones. When it returns no buffer is in use, and `wake`
  // is not called any more. failed: does not wait for the peers.
  void stop(bool failed) noexcept;

 private:
  struct State;
  class Step;
  class Work;

  std::shared_ptr<State> state_;  // shared with the thread
  GpuCopies copies_;
};

}  // namespace xoe::engine
