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
};

// {0, 1, size-1, size, 1000, 100003} elements, three types, two reductions: types and reductions do not change how
// bytes move.
ConformanceGrid thin_grid(int size, bool shared);
// The same with all types and all reductions; thin in sanitizer builds, where it would take most of an hour.
ConformanceGrid full_grid(int size, bool shared);

std::string check_conformance(Communicator& communicator, const ConformanceGrid& grid);

}  // namespace xoe::testing
