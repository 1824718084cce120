// A collective of one size, named and counted as nccl-tests does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "xoe/tensor.h"

namespace xoe::bench {

enum class CollectiveKind : std::uint8_t { kAllReduce, kAllGather, kBroadcast, kReduceScatter, kAllToAll };
inline constexpr std::array kCollectiveKinds = {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                                CollectiveKind::kBroadcast, CollectiveKind::kReduceScatter,
                                                CollectiveKind::kAllToAll};

std::string_view collective_name(CollectiveKind kind) noexcept;  // "all_reduce"
bool reduces(CollectiveKind kind) noexcept;
// Which of them Communicator has: alltoall needs a second buffer, broadcast has one only.
bool has_in_place(CollectiveKind kind) noexcept;
bool has_out_of_place(CollectiveKind kind) noexcept;

// The names of types and reductions in nccl-tests; empty: it has none.
std::string_view nccl_type_name(DType dtype) noexcept;  // "float", also "half", "bfloat16"
std::string_view nccl_op_name(ReduceOp op) noexcept;    // "sum"

struct CollectiveCase {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  // where it reduces
  int root = 0;                  // of a broadcast
  std::size_t block = 0;         // elements: all of an all_reduce or broadcast, else the part of one rank
  int ranks = 1;

  std::size_t in_count() const noexcept;
  std::size_t out_count() const noexcept;
  // The larger of both in bytes: what nccl-tests calls the size.
  std::size_t bytes() const noexcept;
  // Bus bandwidth over algorithm bandwidth, by doc/PERFORMANCE.md of nccl-tests. 0 for a lone rank.
  double bus_factor() const noexcept;
};

// The case of about `bytes`: rounded down so that all parts are equal.
CollectiveCase collective_case(CollectiveKind kind, DType dtype, ReduceOp op, int root, std::size_t bytes, int ranks);

// Sizes from `low` to `high`: multiplied by `factor` where that is above 1, else larger by `step` each.
std::vector<std::size_t> sizes_between(std::size_t low, std::size_t high, std::size_t step, std::size_t factor);

}  // namespace xoe::bench
