// Numbers from a launcher's variables, and whether they fit together.
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

// The variables that the numbers came from, for the message.
struct TopologyNames {
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
  std::string_view cross_rank;
  std::string_view cross_size;
};

// Each rank lies below its size, and no local or cross size beyond the size.
Status check_topology(const Topology& topology, const TopologyNames& names);

// Fills the cross rank and size for a launcher that does not tell them, as ranks are placed by default: each
// host is filled before the next.
void fill_cross(Topology& topology);

}  // namespace xoe::bootstrap
