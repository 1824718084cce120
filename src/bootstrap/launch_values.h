// Numbers from a launcher's variables, and their consistency.
#pragma once

#include <string_view>

#include "base/env.h"
#include "xoe/collective.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

class LaunchValues {
 public:
  explicit LaunchValues(const Env& env) : env_(env) {}
  Result<int> needed(std::string_view name) const;
  Result<int> value_or(std::string_view name, int otherwise) const;

 private:
  const Env& env_;
};

// The variables of the numbers, for error messages.
struct TopologyNames {
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
  std::string_view cross_rank;
  std::string_view cross_size;
};

// Each rank is below its size, and no local or cross size exceeds the size.
Status check_topology(const Topology& topology, const TopologyNames& names);

// Derives cross rank and size for a launcher that does not set them, from the default placement: each host is filled
// before the next.
void fill_cross(Topology& topology);

}  // namespace xoe::bootstrap
