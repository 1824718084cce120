// The conformance suite of backends, as a function that each rank of a group runs; it returns "" on success.
#pragma once

#include <string>
#include <vector>

#include "xoe/communicator.h"

namespace xoe::testing {

struct ConformanceGrid {
  std::vector<std::size_t> counts;
  std::vector<DType> dtypes;
  std::vector<ReduceOp> ops;
  bool shared = false;  // buffers from shared_buffer() instead of private memory
  // Floating-point elements are any numbers, and results have the bits of combining them in the order of ranks.
  // Otherwise elements are small whole numbers, whose sums are the same in any order.
  bool in_rank_order = false;
};

// {0, 1, size-1, size, 1000, 100003} elements, three types, two reductions: types and reductions do not change how
// bytes move.
ConformanceGrid thin_grid(int size, bool shared);
// The same with all types and all reductions; thin in sanitizer builds, where it would take most of an hour.
ConformanceGrid full_grid(int size, bool shared);

std::string check_conformance(Communicator& communicator, const ConformanceGrid& grid);

}  // namespace xoe::testing
