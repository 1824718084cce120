// The interface of a group of ranks on one means of communication.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "core/backend/collective.h"
#include "core/backend/host_group.h"
#include "core/base/stall_timer.h"
#include "xoe/collective.h"
#include "xoe/memory.h"
#include "xoe/status.h"

namespace xoe {

// For waits in libraries, which cannot see whether a peer computes.
inline constexpr std::chrono::nanoseconds kDefaultTimeout = std::chrono::minutes(30);

// How long operations wait for their peers.
struct WaitPolicy {
  WaitLimits limits = {};
  std::function<void(std::string_view)> warn = {};  // receives the warnings, from any thread; unset: there are none
};

// Follows the thread rule and the failure rule of Communicator, which wraps it.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const noexcept = 0;
  virtual const Topology& topology() const noexcept = 0;
  // Ok, or `unsupported` with the reason and an alternative.
  virtual Status supports(const Collective& collective) const = 0;

  virtual Status run(const Collective& collective) = 0;
  // An allreduce without a name or a timeout of its own, in fewer steps than run(). Checks the arguments. False: this
  // backend has no such way, or not now, or the arguments are wrong; run() takes the call, or says what is wrong.
  virtual bool run_small([[maybe_unused]] const ReduceCall& call, [[maybe_unused]] Status& status) { return false; }
  virtual Result<std::shared_ptr<Handle::Work>> start(const Collective& collective) = 0;
  virtual Status progress() = 0;
  // Ends the group with this cause on all ranks; on this rank at the next progress(). Any thread.
  virtual void abort(Error cause) = 0;

  // nullptr for a negative color.
  virtual Result<std::unique_ptr<Backend>> split(int color, int key) = 0;
  virtual Result<SharedBuffer> shared_buffer(std::size_t bytes) = 0;
  virtual Result<std::vector<std::byte*>> map_peers(const SharedBuffer& mine, const OpOptions& options) = 0;

  // For the engine.
  virtual HostGroup& host_group() noexcept = 0;
  // All ranks have made this group: what they told each other for that is needed no more.
  virtual void all_met() noexcept {}

  // Returns true to one caller only, which then tells the launcher who was lost to this group.
  bool first_loss() noexcept { return !loss_told_.exchange(true); }

 private:
  std::atomic<bool> loss_told_ = false;
};

}  // namespace xoe
