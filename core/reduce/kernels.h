// The kernels of reduce.h, one entry per family of types; each call dispatches to the best instruction set.
#pragma once

#include <cstddef>
#include <span>

#include "core/reduce/reducer.h"
#include "xoe/tensor.h"

namespace xoe::reduce {

using Outs = std::span<void* const>;
using Ins = std::span<const void* const>;

// float32 and float64.
void reduce_floats(Outs outs, Ins ins, std::size_t count, DType dtype, ReduceOp op) noexcept;
// The sum of float32 on this processor.
Reducer float_sum() noexcept;
// float16 and bfloat16.
void reduce_halves(Outs outs, Ins ins, std::size_t count, DType dtype, ReduceOp op) noexcept;
// All integer types and bool.
void reduce_integers(Outs outs, Ins ins, std::size_t count, DType dtype, ReduceOp op) noexcept;

}  // namespace xoe::reduce
