// Small structs that the ranks of a group exchange, for example to split it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/backend/collective.h"
#include "core/base/error.h"

namespace xoe {

// Allgathers one struct of each rank; `runner` has run(Collective). Internal operations are named, so that they differ
// from the program's own.
template <class Runner, class T>
Result<std::vector<T>> exchange(Runner& runner, const Topology& topology, const T& mine, const OpOptions& options) {
  static_assert(std::has_unique_object_representations_v<T>, "padding would carry what was in this rank's memory");
  std::vector<T> all(static_cast<std::size_t>(topology.size));
  const std::vector<std::size_t> counts(all.size(), sizeof mine);
  XOE_TRY(runner.run(make_allgather(ConstTensor(&mine, sizeof mine, DType::kUint8),
                                    Tensor(all.data(), all.size() * sizeof mine, DType::kUint8), counts, options)));
  return all;
}

// The ranks whose request has this color, ordered by (key, rank).
template <class Request>
std::vector<int> split_members(const std::vector<Request>& requests, std::int64_t color) {
  std::vector<int> members;
  for (std::size_t r = 0; r < requests.size(); ++r)
    if (requests[r].color == color) members.push_back(static_cast<int>(r));
  std::ranges::stable_sort(members, {}, [&](int r) { return requests[index(r)].key; });
  return members;
}

}  // namespace xoe
