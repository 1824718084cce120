// The conformance suite of nets, as a function that each member runs; it returns "" on success.
#pragma once

#include <string>
#include <vector>

#include "core/backend/net/net.h"

namespace xoe::testing {

struct NetGrid {
  std::vector<std::size_t> counts;
  std::vector<DType> dtypes;
  std::vector<ReduceOp> ops;
};

// {0, 1, size-1, size, 1000, 100003} elements; all types and all reductions for up to three members. Few
// of them for more members and in sanitizer builds, because they do not change how bytes move.
NetGrid net_grid(int size);

std::string check_net(net::Net& net, int size, int self, const NetGrid& grid);

// Reductions of values whose sum depends on its order have the bits of the sum in the order of the members.
std::string check_rank_order(net::Net& net, int size, int self, DType dtype, std::size_t count);

}  // namespace xoe::testing
