// Tensors in host memory: reduced where they lie, or packed into a shared buffer.
#pragma once

#include <cstddef>
#include <vector>

#include "core/engine/execute/batch/target_memory.h"
#include "xoe/communicator.h"
#include "xoe/memory.h"

namespace xoe::engine {

// A tensor between the caller's memory and the wire, converted and scaled on the way.
void pack_tensor(std::byte* to, DType wire, const TensorCopy& tensor, double scale);
void unpack_tensor(const std::byte* from, DType wire, const TensorCopy& tensor, double scale);

class HostMemory final : public TargetMemory {
 public:
  explicit HostMemory(Communicator& comm) : comm_(comm) {}

  Task connect(const Batch& batch) override;
  bool packs(const Batch& batch) const override;
  Task run_fused(Batch& batch) override;
  Task run(Batch& batch, const SubmittedOperation& operation, const Collective& collective) override;
  const std::byte* reduction_input(const SubmittedOperation& operation, std::size_t tensor,
                                   std::vector<std::byte>& scratch) const override;
  std::byte* discarded_output(std::size_t bytes, std::vector<std::byte>& scratch) const override;
  void scale_result(const SubmittedOperation& operation, const Tensor& result) const override;

 private:
  Task run_in_place(Batch& batch);
  Task run_packed(Batch& batch);
  Result<Handle> start_in_place(const Batch& batch);
  Result<SharedBuffer> take_buffer(std::size_t bytes);

  Communicator& comm_;
  std::vector<SharedBuffer> free_buffers_;  // of fused collectives, kept from one to the next
};

}  // namespace xoe::engine
