// The values that ranks put into a collective, and whether the right ones came out.
#pragma once

#include <cstddef>
#include <span>

#include "measure/cli/collectives/collective_case.h"

namespace xoe::bench {

// Small whole numbers, a function of rank and element, exact in every type; of a product 1 and 2 only, so that it stays
// so.
void fill_input(std::span<std::byte> buffer, const CollectiveCase& one, int rank);
// Values that no correct result has, so that an output that was not written is found.
void fill_garbage(std::span<std::byte> buffer, DType dtype);

// How many elements of rank `rank`'s output are wrong. Whole numbers must be equal (they wrap), floating-point numbers
// equal to one rounding.
std::size_t count_wrong(std::span<const std::byte> output, const CollectiveCase& one, int rank);

}  // namespace xoe::bench
