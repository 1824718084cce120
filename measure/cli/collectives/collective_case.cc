#include "measure/cli/collectives/collective_case.h"

#include <algorithm>
#include <utility>

namespace xoe::bench {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 9> kTypes = {{{"int8", DType::kInt8},
                                                                       {"uint8", DType::kUint8},
                                                                       {"int16", DType::kInt16},
                                                                       {"int32", DType::kInt32},
                                                                       {"int64", DType::kInt64},
                                                                       {"half", DType::kFloat16},
                                                                       {"bfloat16", DType::kBfloat16},
                                                                       {"float", DType::kFloat32},
                                                                       {"double", DType::kFloat64}}};

template <class Table, class Value>
std::string_view name_in(const Table& table, Value value) {
  for (const auto& [name, one] : table)
    if (one == value) return name;
  return {};
}

bool in_parts(CollectiveKind kind) { return kind != CollectiveKind::kAllReduce && kind != CollectiveKind::kBroadcast; }

}  // namespace

std::string_view collective_name(CollectiveKind kind) noexcept {
  switch (kind) {
    case CollectiveKind::kAllReduce: return "all_reduce";
    case CollectiveKind::kAllGather: return "all_gather";
    case CollectiveKind::kBroadcast: return "broadcast";
    case CollectiveKind::kReduceScatter: return "reduce_scatter";
    case CollectiveKind::kAllToAll: return "alltoall";
  }
  return {};
}

bool reduces(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
}
bool has_in_place(CollectiveKind kind) noexcept { return kind != CollectiveKind::kAllToAll; }
bool has_out_of_place(CollectiveKind kind) noexcept { return kind != CollectiveKind::kBroadcast; }

std::string_view nccl_type_name(DType dtype) noexcept { return name_in(kTypes, dtype); }
std::string_view nccl_op_name(ReduceOp op) noexcept {
  if (op == ReduceOp::kAverage) return "avg";
  if (op == ReduceOp::kProduct) return "prod";
  return reduce_op_name(op);
}

std::size_t CollectiveCase::in_count() const noexcept {
  const bool whole = kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllToAll;
  return whole ? block * static_cast<std::size_t>(ranks) : block;
}

std::size_t CollectiveCase::out_count() const noexcept {
  const bool whole = kind == CollectiveKind::kAllGather || kind == CollectiveKind::kAllToAll;
  return whole ? block * static_cast<std::size_t>(ranks) : block;
}

std::size_t CollectiveCase::bytes() const noexcept { return std::max(in_count(), out_count()) * dtype_size(dtype); }

double CollectiveCase::bus_factor() const noexcept {
  const double n = ranks;
  switch (kind) {
    case CollectiveKind::kAllReduce: return 2 * (n - 1) / n;
    case CollectiveKind::kBroadcast: return ranks > 1 ? 1 : 0;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll: return (n - 1) / n;
  }
  return 0;
}

CollectiveCase collective_case(CollectiveKind kind, DType dtype, ReduceOp op, int root, std::size_t bytes, int ranks) {
  const std::size_t parts = in_parts(kind) ? static_cast<std::size_t>(ranks) : 1;
  return {
      .kind = kind, .dtype = dtype, .op = op, .root = root, .block = bytes / dtype_size(dtype) / parts, .ranks = ranks};
}

std::vector<std::size_t> sizes_between(std::size_t low, std::size_t high, std::size_t step, std::size_t factor) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = low; size <= high;) {
    sizes.push_back(size);
    const std::size_t next = factor > 1 ? size * factor : size + step;
    if (next <= size || (factor > 1 && size > high / factor)) break;  // 0, or past the end
    size = next;
  }
  return sizes;
}

}  // namespace xoe::bench
