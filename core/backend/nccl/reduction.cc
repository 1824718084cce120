#include "core/backend/nccl/reduction.h"

#include <optional>

#include "core/base/error.h"
#include "core/reduce/reduce.h"

namespace xoe::nccl {
namespace {

bool is_float(DType dtype) noexcept { return dtype >= DType::kFloat16 && dtype <= DType::kFloat64; }

std::optional<NcclType> type_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kUint8:
    case DType::kBool: return NcclType::kUint8;
    case DType::kInt8: return NcclType::kInt8;
    case DType::kInt16: return std::nullopt;
    case DType::kInt32: return NcclType::kInt32;
    case DType::kInt64: return NcclType::kInt64;
    case DType::kFloat16: return NcclType::kFloat16;
    case DType::kBfloat16: return NcclType::kBfloat16;
    case DType::kFloat32: return NcclType::kFloat32;
    case DType::kFloat64: return NcclType::kFloat64;
  }
  return std::nullopt;
}

// Of bytes that are 0 or 1, the largest is "or" and the smallest is "and".
std::optional<NcclOp> op_of(DType dtype, ReduceOp op) noexcept {
  switch (dtype == DType::kBool ? traits_of(op).of_bools.value_or(op) : op) {
    case ReduceOp::kSum: return NcclOp::kSum;
    case ReduceOp::kProduct: return NcclOp::kProduct;
    case ReduceOp::kMin: return NcclOp::kMin;
    case ReduceOp::kMax: return NcclOp::kMax;
    case ReduceOp::kAverage: return NcclOp::kAverage;
    default: return std::nullopt;
  }
}

}  // namespace

Result<Reduction> plan_reduction(const Collective& c, int size, const NcclFeatures& features, int version) {
  XOE_TRY(reduce::supports(c.dtype, c.op));
  const auto type = type_of(c.dtype);
  if (!type)
    return failure(Code::kUnsupported, "nccl: NCCL does not reduce {}; convert it to int32", dtype_name(c.dtype));
  const auto op = op_of(c.dtype, c.op);
  if (!op) return failure(Code::kUnsupported, "nccl: NCCL has no {}; use tensors of the CPU", reduce_op_name(c.op));
  if (c.dtype == DType::kBfloat16 && !features.bfloat16)
    return failure(Code::kUnsupported,
                   "nccl: NCCL {} does not reduce bfloat16; install 2.10 or later, or convert it to float32",
                   nccl_version_text(version));
  const bool average = c.op == ReduceOp::kAverage;
  // ReduceOp promises a wider sum than NCCL computes.
  if (average && !is_float(c.dtype))
    return failure(
        Code::kUnsupported,
        "nccl: NCCL adds {} in its own type, where the sum of an average may not fit; use sum and divide, or "
        "convert it to float32",
        dtype_name(c.dtype));
  Reduction plan{.type = *type, .op = *op};
  if (c.prescale == 1) {
    if (average && !features.average)
      return failure(Code::kUnsupported,
                     "nccl: NCCL {} has no average; install 2.10 or later, or use sum and divide by {}",
                     nccl_version_text(version), size);
    return plan;
  }
  if (!traits_of(c.op).linear || !is_float(c.dtype))
    return failure(Code::kUnsupported, "nccl: only sum and average of floats accept a factor, not {} of {}",
                   reduce_op_name(c.op), dtype_name(c.dtype));
  if (!features.pre_mul_sum)
    return failure(Code::kUnsupported,
                   "nccl: NCCL {} does not accept a factor; install 2.11 or later, or scale before the call",
                   nccl_version_text(version));
  plan.op = NcclOp::kSum;
  plan.scaled = true;
  plan.factor = average ? c.prescale / size : c.prescale;
  return plan;
}

}  // namespace xoe::nccl
