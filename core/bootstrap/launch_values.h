// Numbers from a launcher's variables, and their consistency.
#pragma once

#include <string_view>

#include "core/base/env.h"
#include "xoe/collective.h"
#include "xoe/status.h"

namespace xoe::bootstrap {

Result<int> needed_value(const Env& env, std::string_view name);
Result<int> value_or(const Env& env, std::string_view name, int otherwise);

// The variables of the numbers.
struct TopologyNames {
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
  std::string_view cross_rank = {};  // empty: the launcher does not set it
  std::string_view cross_size = {};
};

// Each rank is below its size, and no local or cross size exceeds the size.
Status check_topology(const Topology& topology, const TopologyNames& names);

// Reads and checks the numbers. Unless `local_needed`, all ranks are on one host when the local ones are missing. With
// `fill_cross`, missing cross ones follow from the default placement: each host is filled before the next.
Result<Topology> read_topology(const Env& env, const TopologyNames& names, bool local_needed, bool fill_cross);

}  // namespace xoe::bootstrap
