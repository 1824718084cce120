// A collective on GPU memory that the backend for host memory makes: pieces of the tensors are copied to pinned memory,
// reduced there, and copied back. While the host reduces one piece the next one is copied.
#pragma once

#include <cstddef>

#include "core/engine/execute/batch/task.h"
#include "core/engine/execute/gpu/gpu_communicator.h"
#include "core/engine/execute/gpu/staged_plan.h"
#include "xoe/communicator.h"

namespace xoe::engine {

struct Batch;

class StagedCollective {
 public:
  // All ranks stage the same collectives of `comm` in the same order. batch: gives the name; whole_batch: and learns
  // when the last collective of `comm` has started. All arguments must outlive the object.
  StagedCollective(Communicator& comm, GpuCommunicator& gpu, const GpuCollective& job, Batch& batch, bool whole_batch);

  Task run();

 private:
  // One round on its way through a slot.
  struct Part {
    StagedRound round = {};
    std::size_t slot = 0;
    Result<Handle> filled = Handle();
  };

  Task agree_on_rounds(std::size_t& rounds);
  Task begin(std::size_t number, Part& part);
  void prepare(const Part& part) const;
  Result<Handle> start(const Part& part);
  Result<Handle> finish(const Part& part);

  // Memory of the GPU; null: this rank has none for the piece.
  const std::byte* source(const StagedPiece& piece) const;
  std::byte* target(const StagedPiece& piece) const;
  std::byte* staged(const Part& part, std::size_t element) const;

  Communicator& comm_;
  GpuCopies& copies_;
  const GpuCollective& job_;
  Batch& batch_;
  const bool whole_batch_;
  const Collective collective_;
  const std::size_t width_;
  const std::size_t slot_bytes_;
  const StagedPlan plan_;
  bool waited_in_ = false, waited_out_ = false;  // for the work before the marks
};

}  // namespace xoe::engine
