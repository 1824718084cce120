// Fuses operations into batches and runs them, several at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/engine/execute/batch/batch.h"
#include "core/engine/execute/operations.h"

namespace xoe::engine {

struct FusionLimits {
  std::size_t threshold = 0;   // bytes of a fused collective
  std::size_t pack_limit = 0;  // larger tensors travel alone
};

// A pure function of values that are the same on all ranks: batches in the order in which all ranks run them. A tensor
// joins the first batch of its kind that has room, also past tensors of another kind. Every tensor is in exactly one
// batch, also an empty one.
std::vector<std::unique_ptr<Batch>> plan_batches(std::shared_ptr<const ReadyOps> ready, const FusionLimits& limits);

// The batches of one process set. For the thread that makes progress.
class BatchRunner {
 public:
  // profiler: null, or outlives this.
  BatchRunner(Communicator& comm, GpuCommunicator& gpu, const Profiler* profiler)
      : context_(comm, gpu), profiler_(profiler) {}

  // Bytes of state that codecs keep for names that may not be in use any more.
  void limit_codec_state(std::size_t bytes) noexcept { context_.codecs.set_limit(bytes); }

  // in_flight: batches that may run at once from now on.
  void add(std::vector<std::unique_ptr<Batch>> batches, int in_flight);
  // No batch waits, and another one could start at once.
  bool wants_more() const noexcept { return queued_.empty() && has_room(); }
  bool empty() const noexcept { return queued_.empty() && running_.empty(); }

  // The next batch, if it may start now; else null.
  const Batch* startable() const noexcept;
  // REQUIRES: startable().
  void start();
  // Takes out an operation of the engine itself, which the caller runs. REQUIRES: startable().
  std::unique_ptr<Batch> take_next();

  // Advances the first running batch without blocking. True: it is done, well or not; `moved`: something has changed.
  bool advance_first(bool& moved);
  Batch& first() const noexcept { return *running_.front(); }
  std::unique_ptr<Batch> take_first();
  bool running() const noexcept { return !running_.empty(); }

  // All lines of the sealed log before it have run; `end` if no batch is left.
  std::uint64_t completed_position(std::uint64_t end) const noexcept;
  // The submissions of this rank that have not completed.
  ReadyOps unfinished() const;
  void clear();

 private:
  bool has_room() const noexcept { return static_cast<int>(running_.size()) < in_flight_; }

  OpContext context_;
  const Profiler* const profiler_;
  std::deque<std::unique_ptr<Batch>> queued_;
  std::deque<std::unique_ptr<Batch>> running_;
  int in_flight_ = 2;
};

}  // namespace xoe::engine
