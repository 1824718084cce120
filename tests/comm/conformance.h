// What every backend must do, as a function that each rank of a group runs: an empty string is success.
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

// The grid of docs: {0, 1, size-1, size, 1000, 100003} elements, all types, all reductions; fewer types and reductions
// in sanitizer builds.
ConformanceGrid full_grid(int size, bool shared);

std::string check_conformance(Communicator& communicator, const ConformanceGrid& grid);

}  // namespace xoe::testing
