#include "core/reduce/float_state.h"
#include "core/reduce/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/reduce/float_kernels.cc"
#include "hwy/foreach_target.h"  // before highway.h: compiles this file once per instruction set
#include "hwy/highway.h"

#include "core/reduce/passes-inl.h"  // a block of its own, so that sorting leaves it behind foreach_target.h

HWY_BEFORE_NAMESPACE();
namespace xoe::reduce::HWY_NAMESPACE {

template <class T>
struct FloatType {
  using Wide = FloatPack<hn::ScalableTag<T>>;
  using Four = FloatPack<hn::CappedTag<T, 4>>;
  using One = FloatPack<hn::CappedTag<T, 1>>;
};

void floats(Outs outs, Ins ins, std::size_t count, DType dtype, ReduceOp op) {
  if (dtype == DType::kFloat32) return reduce<FloatType<float>>(outs, ins, count, op);
  reduce<FloatType<double>>(outs, ins, count, op);
}

void sum_floats(void* out, Ins ins, std::size_t count) {
  const DefaultFloatState state;
  if (ins.size() == 1) return reduce<FloatType<float>>({&out, 1}, ins, count, ReduceOp::kSum);
  Reduction<FloatType<float>, SumOp>({&out, 1}, ins, 1).run(count);
}

Reducer sum_floats_here() { return sum_floats; }

}  // namespace xoe::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xoe::reduce {

HWY_EXPORT(floats);
HWY_EXPORT(sum_floats_here);

void reduce_floats(Outs outs, Ins ins, std::size_t count, DType dtype, ReduceOp op) noexcept {
  HWY_DYNAMIC_DISPATCH(floats)(outs, ins, count, dtype, op);
}

Reducer float_sum() noexcept { return HWY_DYNAMIC_DISPATCH(sum_floats_here)(); }

}  // namespace xoe::reduce
#endif
