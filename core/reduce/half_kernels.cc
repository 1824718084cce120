#include "core/reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/reduce/half_kernels.cc"
#include "hwy/foreach_target.h"  // before highway.h: compiles this file once per instruction set
#include "hwy/highway.h"

#include "core/reduce/passes-inl.h"  // a block of its own, so that sorting leaves it behind foreach_target.h

HWY_BEFORE_NAMESPACE();
namespace xoe::reduce::HWY_NAMESPACE {

struct Float16Type {
  using Wide = HalfPack<hn::ScalableTag<float>, Float16>;
  using Four = HalfPack<hn::CappedTag<float, 4>, Float16>;
  using One = HalfPack<hn::CappedTag<float, 1>, Float16>;
};

struct Bfloat16Type {
  using Wide = Bfloat16Pairs;
  using Four = HalfPack<hn::CappedTag<float, 4>, Bfloat16>;
  using One = HalfPack<hn::CappedTag<float, 1>, Bfloat16>;
};

void halves(Outs outs, Ins ins, std::size_t count, DType dtype, ReduceOp op) {
  if (dtype == DType::kFloat16) return reduce<Float16Type>(outs, ins, count, op);
  reduce<Bfloat16Type>(outs, ins, count, op);
}

}  // namespace xoe::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xoe::reduce {

HWY_EXPORT(halves);

void reduce_halves(Outs outs, Ins ins, std::size_t count, DType dtype, ReduceOp op) noexcept {
  HWY_DYNAMIC_DISPATCH(halves)(outs, ins, count, dtype, op);
}

}  // namespace xoe::reduce
#endif
