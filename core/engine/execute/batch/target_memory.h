// The memory that an operation's tensors lie in.
#pragma once

#include <cstddef>
#include <vector>

#include "core/backend/backend.h"
#include "core/engine/execute/batch/batch.h"

namespace xoe::engine {

class TargetMemory {
 public:
  virtual ~TargetMemory() = default;

  // Where connected() is false, connect() must have run before the first collective.
  virtual bool connected() const { return true; }
  virtual Task connect(const Batch& batch) = 0;

  // Does run_fused() pack this batch before its collective?
  virtual bool packs(const Batch&) const { return false; }
  // Runs the slices of a fused batch as one collective. The task refers to the batch.
  virtual Task run_fused(Batch& batch) = 0;

  // For operations of several steps:
  // Runs a collective on tensors of `operation`. The task refers to all arguments, and to what they refer to.
  virtual Task run(Batch& batch, const SubmittedOperation& operation, const Collective& collective) = 0;
  // A tensor as a reduction reads it: scaled, and on a rank that has joined, elements that change nothing. Values that
  // are not the tensor's own lie in `scratch`.
  virtual const std::byte* reduction_input(const SubmittedOperation& operation, std::size_t tensor,
                                           std::vector<std::byte>& scratch) const = 0;
  // Memory for a result that no tensor takes.
  virtual std::byte* discarded_output(std::size_t bytes, std::vector<std::byte>& scratch) const = 0;
  // Applies postscale to a result.
  virtual void scale_result(const SubmittedOperation& operation, const Tensor& result) const = 0;
};

inline OpOptions options_of(const Batch& batch) { return {.name = batch.title}; }

}  // namespace xoe::engine
