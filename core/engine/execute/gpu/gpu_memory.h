// Tensors in memory of this rank's GPU: NCCL works on them where they lie, or they are staged through host memory.
#pragma once

#include <string>
#include <vector>

#include "core/engine/execute/batch/target_memory.h"
#include "core/engine/execute/gpu/gpu_communicator.h"
#include "xoe/communicator.h"

namespace xoe::engine {

// Whether NCCL can apply an operation's factors, as one: it rounds them to the tensor's type.
bool nccl_scales(const OpSpec& op) noexcept;

class GpuMemory final : public TargetMemory {
 public:
  // comm: between the same ranks, for what they exchange before NCCL connects them.
  GpuMemory(Communicator& comm, GpuCommunicator& gpu) : comm_(comm), gpu_(gpu) {}

  bool connected() const override { return gpu_.connected(); }
  Task connect(const Batch& batch) override;
  Task run_fused(Batch& batch) override;
  Task run(Batch& batch, const SubmittedOperation& operation, const Collective& collective) override;
  // Null memory gives elements that change nothing, and drops results.
  const std::byte* reduction_input(const SubmittedOperation& operation, std::size_t tensor,
                                   std::vector<std::byte>& scratch) const override;
  std::byte* discarded_output(std::size_t bytes, std::vector<std::byte>& scratch) const override;
  void scale_result(const SubmittedOperation& operation, const Tensor& result) const override;

 private:
  Task run_job(GpuCollective job, const OpSpec& op, Batch& batch, bool whole_batch);
  Task exchange(const Batch& batch, const std::string& mine, std::vector<std::string>& all);

  Communicator& comm_;
  GpuCommunicator& gpu_;
};

}  // namespace xoe::engine
