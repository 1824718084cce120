#include "bootstrap/launch_values.h"

#include <algorithm>

#include "base/error.h"

namespace xoe::bootstrap {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;

Status check_below(int rank, std::string_view rank_name, int size, std::string_view size_name) {
  if (size < 1)
    return failure(Code::kInvalidArgument, "environment variable {}={}: there is at least 1", size_name, size);
  if (rank >= size)
    return failure(Code::kInvalidArgument, "environment variable {}={} contradicts {}={}: it must be below", rank_name,
                   rank, size_name, size);
  return {};
}

}  // namespace

Result<int> LaunchValues::needed(std::string_view name) const {
  XOE_ASSIGN(const auto value, env_.integer(name, 0, kMostRanks));
  if (!value)
    return failure(Code::kInvalidArgument, "environment variable {} is missing, though others of its launcher are set",
                   name);
  return static_cast<int>(*value);
}

Result<int> LaunchValues::value_or(std::string_view name, int otherwise) const {
  XOE_ASSIGN(const auto value, env_.integer(name, 0, kMostRanks));
  return static_cast<int>(value.value_or(otherwise));
}

Status check_topology(const Topology& topology, const TopologyNames& names) {
  XOE_TRY(check_below(topology.rank, names.rank, topology.size, names.size));
  XOE_TRY(check_below(topology.local_rank, names.local_rank, topology.local_size, names.local_size));
  XOE_TRY(check_below(topology.cross_rank, names.cross_rank, topology.cross_size, names.cross_size));
  for (const auto& [value, name] :
       {std::pair(topology.local_size, names.local_size), std::pair(topology.cross_size, names.cross_size)})
    if (value > topology.size)
      return failure(Code::kInvalidArgument, "environment variable {}={} contradicts {}={}: it must not be above", name,
                     value, names.size, topology.size);
  return {};
}

void fill_cross(Topology& topology) {
  topology.cross_size = (topology.size + topology.local_size - 1) / topology.local_size;
  topology.cross_rank = std::min(topology.rank / topology.local_size, topology.cross_size - 1);
}

}  // namespace xoe::bootstrap
