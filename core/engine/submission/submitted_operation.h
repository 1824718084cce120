// An operation as this rank submitted it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/engine/negotiate/op_descriptor.h"
#include "xoe/engine.h"
#include "xoe/status.h"
#include "xoe/tensor.h"

namespace xoe::engine {

struct TensorCopy {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::size_t count = 0;

  std::size_t bytes() const noexcept { return count * dtype_size(dtype); }
  std::size_t rows() const noexcept { return shape.empty() ? 1 : static_cast<std::size_t>(shape[0]); }
  std::size_t row_elements() const noexcept;
};

// Does the operation have a root?
constexpr bool has_root(OpKind kind) { return kind == OpKind::kBroadcast || kind == OpKind::kBroadcastBytes; }

struct SubmittedOperation {
  // Checks everything that one rank can check alone. rank, ranks: of the process set.
  static Result<SubmittedOperation> make(const Request& request, std::string name, int rank, int ranks);
  // An operation of the engine itself. All ranks must give the same argument.
  static SubmittedOperation make_internal(InternalKind kind, std::string name, std::vector<std::int64_t> argument);
  // One that this rank takes part in without data, because it has joined.
  static SubmittedOperation make_placeholder(const OpDescriptor& op, std::uint64_t signature,
                                             std::span<const TensorSize> sizes);

  // Makes it that of `request`. False: the two differ in more than their memory, or that is wrong; the operation is of
  // no use then.
  bool renew(const Request& request, int rank, int ranks);
  // May renew() succeed?
  bool renewable() const noexcept;

  // Returns the text that ranks are shown if their operations differ.
  std::string describe() const;
  // "allreduce 'conv1.weight'"
  std::string title() const;
  // Bytes of this rank's tensors.
  std::size_t bytes() const noexcept;

  std::string name;
  OpDescriptor op;
  OpSpec asked;  // of the request: `op` lacks what its kind ignores
  std::vector<TensorCopy> tensors;
  std::vector<TensorSize> sizes;
  std::vector<std::int64_t> splits;
  std::vector<std::int64_t> dense_shape;
  std::vector<std::int64_t> argument;  // of an internal operation
  std::string detail;                  // what else ranks compare
  std::uint64_t signature = 0;
  ProcessSetId process_set = kWorldSet;
  bool placeholder = false;
  bool queue_same_name = false;  // a name in flight is no error: this submission enters after the one that has it
  std::chrono::nanoseconds timeout{0};  // with ranks that have not submitted it; 0: the engine's limit
  std::shared_ptr<const void> memory;   // owns that of the tensors
  std::shared_ptr<const void> mark;     // of GPU memory: the work in its stream at the submit
};

}  // namespace xoe::engine
