#include "core/bootstrap/launch_values.h"

#include <algorithm>

#include "core/base/error.h"

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

Result<int> needed_value(const Env& env, std::string_view name) {
  XOE_ASSIGN(const auto value, env.integer(name, 0, kMostRanks));
  if (!value)
    return failure(Code::kInvalidArgument, "environment variable {} is missing, though others of its launcher are set",
                   name);
  return static_cast<int>(*value);
}

Result<int> value_or(const Env& env, std::string_view name, int otherwise) {
  XOE_ASSIGN(const auto value, env.integer(name, 0, kMostRanks));
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

Result<Topology> read_topology(const Env& env, const TopologyNames& names, bool local_needed, bool fill_cross) {
  Topology at;
  XOE_ASSIGN(at.rank, needed_value(env, names.rank));
  XOE_ASSIGN(at.size, needed_value(env, names.size));
  const auto local = [&](std::string_view name, int otherwise) {
    return local_needed ? needed_value(env, name) : value_or(env, name, otherwise);
  };
  XOE_ASSIGN(at.local_rank, local(names.local_rank, at.rank));
  XOE_ASSIGN(at.local_size, local(names.local_size, at.size));
  if (fill_cross && at.local_size > 0) {
    at.cross_size = (at.size + at.local_size - 1) / at.local_size;
    at.cross_rank = std::min(at.rank / at.local_size, at.cross_size - 1);
  }
  if (!names.cross_rank.empty()) {
    XOE_ASSIGN(at.cross_rank, value_or(env, names.cross_rank, at.cross_rank));
    XOE_ASSIGN(at.cross_size, value_or(env, names.cross_size, at.cross_size));
  }
  XOE_TRY(check_topology(at, names));
  return at;
}

}  // namespace xoe::bootstrap
