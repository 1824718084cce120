// Element-wise reductions over several inputs, at the speed of memory. SIMD through Google Highway, dispatched at run
// time.
#pragma once

#include <cstddef>
#include <span>

#include "core/reduce/reducer.h"
#include "xoe/status.h"
#include "xoe/tensor.h"

namespace xoe::reduce {

// Ok, or `unsupported` for pairs without meaning (average of bool).
Status supports(DType dtype, ReduceOp op);

// outs[k][i] = op(ins[0][i], ins[1][i], ...) for i < count and every k, combined in the order of `ins`; kAverage
// divides by ins.size() with one rounding (integers truncate toward zero), and is finite where all inputs are: its sum
// may leave the range of the type. float16 and bfloat16 are combined in float32 and rounded once, to nearest even. NaN
// wins every operation; arithmetic of two or more inputs makes it the positive quiet one without payload. -0 is less
// than +0 to kMin and kMax. A bool is true for any byte but 0, and becomes 0 or 1. The bits at an index depend only on
// the inputs at that index, not on count, alignment or position in a block. Buffers need no alignment.
//
// REQUIRES: 1 <= ins.size(); 1 <= outs.size(); each out is identical to one of the ins or overlaps none;
// supports(dtype, op).
void reduce_into(std::span<void* const> outs, std::span<const void* const> ins, std::size_t count, DType dtype,
                 ReduceOp op) noexcept;

// The reduction with this type and operation. REQUIRES: supports(dtype, op).
Reducer reducer_for(DType dtype, ReduceOp op) noexcept;

// out[i] = in[i] in another type: any float type to any float type (round to nearest even, NaN stays NaN).
// REQUIRES: both are float types; no overlap.
void cast(const void* in, DType in_type, void* out, DType out_type, std::size_t count) noexcept;

// x[i] *= factor, in place; computed in float32 for 16-bit floats and float32, in float64 for the rest. Integers are
// truncated toward zero and saturate. Not for bool.
void scale(void* x, std::size_t count, DType dtype, double factor) noexcept;

}  // namespace xoe::reduce
