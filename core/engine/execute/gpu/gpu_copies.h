// Copies between the GPU and pinned host memory, started by a thread of its own, so that threads of the program that
// make progress never call CUDA.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/backend/net/gpu_staging.h"
#include "core/engine/execute/gpu/gpu_plugin.h"
#include "xoe/collective.h"
#include "xoe/status.h"

namespace xoe::engine {

// One copy and more between a slot of the pinned memory and the GPU.
struct GpuTransfer {
  net::GpuDirection direction = net::GpuDirection::kToHost;
  std::size_t slot = 0;
  std::vector<net::GpuCopy> copies = {};
  std::vector<std::shared_ptr<const void>> after = {};  // marks of Provider::admit()
};

// For one thread at a time: the one that makes progress.
class GpuCopies {
 public:
  static constexpr std::size_t kSlots = 2;  // one is filled while the host reduces the other

  // wake: called by any thread when test() of a handle changes; must not call this object.
  GpuCopies(std::shared_ptr<GpuPlugin> plugin, std::function<void()> wake);
  ~GpuCopies() { stop(); }

  // Pins kSlots parts of `slot_bytes` at the first call, which later ones repeat; the handle tells when they are there.
  Result<Handle> prepare(std::size_t slot_bytes);
  // REQUIRES: the handle of prepare() is done.
  std::byte* memory(std::size_t slot) const;

  // A free slot, until it is given back. Copies out of it may still run then: those into it wait for them.
  std::optional<std::size_t> take_slot() noexcept;
  void give_slot(std::size_t slot) noexcept { taken_[slot] = false; }

  Result<Handle> start(GpuTransfer transfer);

  // Refuses transfers that have not begun. When it returns no buffer is in use, and `wake` is not called any more; only
  // copies behind work of the GPU that does not end are left behind, after some time.
  void stop() noexcept;

 private:
  struct State;
  class Transfer;
  class Prepared;

  std::shared_ptr<State> state_;  // shared with the thread
  std::array<bool, kSlots> taken_{};
};

}  // namespace xoe::engine
