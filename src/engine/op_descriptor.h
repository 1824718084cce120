// What the ranks of a process set know of one operation, besides its name.
#pragma once

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

// Element type and element count of one tensor, in one word.
struct TensorSize {
  std::uint64_t count : 56;
  std::uint64_t dtype : 8;
};

}  // namespace xoe::engine
