// Collectives as data, and what one rank can check of them alone.
#pragma once

#include <span>
#include <string_view>

#include "backend/backend.h"

namespace xoe {

Collective describe_allreduce(ConstTensor in, Tensor out, ReduceOp op, const OpOptions& options);
// Checked as well.
Result<Collective> describe_segments(std::span<const Segment> segments, DType dtype, ReduceOp op,
                                     const OpOptions& options);
Collective describe_broadcast(Tensor data, int root, const OpOptions& options);
Collective describe_allgather(ConstTensor in, Tensor out, std::span<const std::size_t> counts,
                              const OpOptions& options);
Collective describe_reduce_scatter(ConstTensor in, Tensor out, std::span<const std::size_t> counts, ReduceOp op,
                                   const OpOptions& options);
Collective describe_alltoall(ConstTensor in, std::span<const std::size_t> send_counts, Tensor out,
                             std::span<const std::size_t> recv_counts, const OpOptions& options);

// Same element type on both sides.
Status check_pair(std::string_view what, const ConstTensor& in, const Tensor& out);
// Pointers, counts, root and overlap: everything that Collective promises to a backend.
Status check_collective(const Collective& collective, const Topology& topology);
// The sum of a table, `invalid_argument` when it does not fit.
Result<std::size_t> sum_counts(std::string_view what, std::span<const std::size_t> counts);

}  // namespace xoe
