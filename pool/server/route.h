// A request that the server knows.
#pragma once

#include <compare>
#include <string>

namespace xoe::pool {

// The path has {id} where a number is.
struct Route {
  std::string method = {};
  std::string path = {};
  auto operator<=>(const Route&) const = default;
};

}  // namespace xoe::pool
