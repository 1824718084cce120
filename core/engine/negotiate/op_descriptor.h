// What the ranks of a process set know of one operation, besides its name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "xoe/engine.h"

namespace xoe::engine {

// Operations of the engine itself, which are agreed on by name like all others.
enum class InternalKind : std::uint8_t { kNone, kAddProcessSet, kRemoveProcessSet, kMeet, kAllJoined };

// Also known to a rank that has joined and has no tensors for the operation.
struct OpDescriptor : OpSpec {
  InternalKind internal = InternalKind::kNone;
  std::uint32_t tensors = 0;    // in the group
  std::uint64_t first_dim = 0;  // rows of the first tensor
};

// Tensors of a group whose sizes a rank that has joined learns.
inline constexpr std::size_t kListedTensors = 20;

// Can the operation not run without ranks that have joined?
constexpr bool needs_every_rank(const OpDescriptor& op) {
  return op.needs_all_ranks || op.kind == OpKind::kAlltoall || op.internal != InternalKind::kNone ||
         op.tensors > kListedTensors ||
         (op.tensors > 1 && (op.compression.kind == Compression::kPowerSgd || op.kind == OpKind::kReduceScatter));
}

// The bit of a signature that says so, for hosts that know no more of an operation.
inline constexpr std::uint64_t kNeedsEveryRank = std::uint64_t{1} << 63;

// Element type and element count of one tensor, in one word.
struct TensorSize {
  std::uint64_t count : 56;
  std::uint64_t dtype : 8;
};

}  // namespace xoe::engine
