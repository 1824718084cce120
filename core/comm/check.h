// The checks of a collective that one rank can do alone.
#pragma once

#include <span>
#include <string_view>

#include "core/backend/backend.h"

namespace xoe {

// An allreduce of several arrays, checked.
Result<Collective> make_checked_segments(std::span<const Segment> segments, DType dtype, ReduceOp op,
                                         const OpOptions& options);
// Same element type on both sides.
Status check_pair(std::string_view what, const ConstTensor& in, const Tensor& out);
// Pointers, counts, root and overlap: everything that backends may rely on.
Status check_collective(const Collective& collective, const Topology& topology);
// The sum of a table; `invalid_argument` if it overflows.
Result<std::size_t> sum_counts(std::string_view what, std::span<const std::size_t> counts);

}  // namespace xoe
