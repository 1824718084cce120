// Neutral elements of reductions.
#pragma once

#include <cstddef>

#include "xoe/tensor.h"

namespace xoe::reduce {

// Fills `data` with the neutral element of `op`, the input of a rank without data; zeros for sums and averages. `data`
// is aligned for the type.
void fill_neutral(void* data, std::size_t count, DType dtype, ReduceOp op) noexcept;

}  // namespace xoe::reduce
