#include "core/comm/subgroup.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "core/backend/collective.h"
#include "core/base/error.h"

namespace xoe {
namespace {

using Group = std::vector<std::int32_t>;

// The group that each rank names.
Result<std::vector<Group>> exchange(Communicator& world, std::span<const int> mine) {
  const Group given(mine.begin(), mine.end());
  XOE_ASSIGN(const Gathered gathered, world.allgather(ConstTensor(given.data(), given.size()), {.name = "init"}));
  std::vector<Group> groups;
  const std::byte* at = gathered.data.data();
  for (const std::size_t count : gathered.counts) {
    Group& group = groups.emplace_back(count);
    if (count != 0) std::memcpy(group.data(), at, count * sizeof(std::int32_t));
    at += count * sizeof(std::int32_t);
    if (!group.empty()) continue;
    group.resize(index(world.size()));
    std::iota(group.begin(), group.end(), 0);
  }
  return groups;
}

Status check(const std::vector<Group>& groups) {
  const auto size = static_cast<std::int32_t>(groups.size());
  for (std::int32_t rank = 0; rank < size; ++rank) {
    const Group& group = groups[index(rank)];
    Group sorted = group;
    std::ranges::sort(sorted);
    if (sorted.front() < 0 || sorted.back() >= size || std::ranges::adjacent_find(sorted) != sorted.end())
      return failure(Code::kInvalidArgument, "rank {} wants a group of ranks [{}]; each must be one of the {}, once",
                     rank, fmt::join(group, ", "), size);
    if (!std::ranges::binary_search(sorted, rank))
      return failure(Code::kInvalidArgument, "rank {} wants a group of ranks [{}], and is not one of them", rank,
                     fmt::join(group, ", "));
    for (const std::int32_t other : group)
      if (const Group& theirs = groups[index(other)]; theirs != group)
        return failure(Code::kInvalidArgument, "rank {} wants a group of ranks [{}], rank {} one of [{}]", rank,
                       fmt::join(group, ", "), other, fmt::join(theirs, ", "));
  }
  return {};
}

}  // namespace

Result<Communicator> subgroup(Communicator world, std::span<const int> ranks) {
  XOE_ASSIGN(const auto groups, exchange(world, ranks));
  XOE_TRY(check(groups));
  const Group& mine = groups[index(world.rank())];
  const auto place = std::ranges::find(mine, world.rank()) - mine.begin();
  XOE_ASSIGN(auto group, world.split(*std::ranges::min_element(mine), static_cast<int>(place)));
  // No rank leaves the world before all have their groups.
  XOE_TRY(world.barrier({.name = "init"}));
  return std::move(*group);
}

}  // namespace xoe
