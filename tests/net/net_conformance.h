// What every net must do, as a function that each member runs: an empty string is success.
#pragma once

#include <string>
#include <vector>

#include "backend/net/net.h"

namespace xoe::testing {

struct NetGrid {
  std::vector<std::size_t> counts;
  std::vector<DType> dtypes;
  std::vector<ReduceOp> ops;
};

// {0, 1, size-1, size, 1000, 100003} elements; all types and all reductions for up to three members. With more of them,
// and in sanitizer builds, few: how bytes move does not depend on them.
NetGrid net_grid(int size);

std::string check_net(net::Net& net, int size, int self, const NetGrid& grid);

}  // namespace xoe::testing
