// What changes nothing in a reduction.
#pragma once

#include <cstddef>

#include "xoe/tensor.h"

namespace xoe::reduce {

// What a rank without data gives, so that it changes nothing. Sums and averages count it as zeros. `data` is aligned
// for the type.
void fill_neutral(void* data, std::size_t count, DType dtype, ReduceOp op) noexcept;

}  // namespace xoe::reduce
