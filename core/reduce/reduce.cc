#include "core/reduce/reduce.h"

#include <array>
#include <utility>

#include "core/base/error.h"
#include "core/reduce/float_state.h"
#include "core/reduce/kernels.h"

namespace xoe::reduce {

Status supports(DType dtype, ReduceOp op) {
  if (dtype == DType::kBool && !traits_of(op).of_bools)
    return failure(Code::kUnsupported, "{} of bool has no meaning; cast to float32 first", reduce_op_name(op));
  return {};
}

namespace {

template <std::size_t kPair>
void reduce_pair(void* out, std::span<const void* const> ins, std::size_t count) {
  constexpr auto kOp = static_cast<ReduceOp>(kPair % kReduceOpCount);
  reduce_into({&out, 1}, ins, count, static_cast<DType>(kPair / kReduceOpCount), kOp);
}

template <std::size_t... kPairs>
constexpr std::array<Reducer, sizeof...(kPairs)> make_reducers(std::index_sequence<kPairs...>) {
  return {reduce_pair<kPairs>...};
}

}  // namespace

Reducer reducer_for(DType dtype, ReduceOp op) noexcept {
  static constexpr auto kReducers = make_reducers(std::make_index_sequence<kDTypeCount * kReduceOpCount>());
  if (dtype == DType::kFloat32 && op == ReduceOp::kSum) return float_sum();
  return kReducers[static_cast<std::size_t>(dtype) * kReduceOpCount + static_cast<std::size_t>(op)];
}

void reduce_into(std::span<void* const> outs, std::span<const void* const> ins, std::size_t count, DType dtype,
                 ReduceOp op) noexcept {
  if (count == 0) return;
  const DefaultFloatState state;
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat64: return reduce_floats(outs, ins, count, dtype, op);
    case DType::kFloat16:
    case DType::kBfloat16: return reduce_halves(outs, ins, count, dtype, op);
    case DType::kUint8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kBool: return reduce_integers(outs, ins, count, dtype, op);
  }
}

}  // namespace xoe::reduce
