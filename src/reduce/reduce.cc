#include "reduce/reduce.h"

#include "reduce/float_state.h"
#include "reduce/kernels.h"

namespace xoe::reduce {

Status supports(DType dtype, ReduceOp op) {
  if (dtype == DType::kBool && op == ReduceOp::kAverage) {
    return failure(Code::kUnsupported, "average of bool has no meaning; cast to float32 first");
  }
  return {};
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
