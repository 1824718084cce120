// A reduction whose choices are made.
#pragma once

#include <cstddef>
#include <span>

namespace xoe::reduce {

// reduce_into() (reduce.h) with one output and its choices made: for a reduction that is repeated. `count` may be 0.
using Reducer = void (*)(void* out, std::span<const void* const> ins, std::size_t count);

}  // namespace xoe::reduce
