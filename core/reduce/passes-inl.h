// The loops over memory that all floating-point types share. Included once per instruction set by foreach_target.
//
// Two inputs, and up to four of a sum, are combined in registers in one pass over memory. More inputs are combined
// block by block, two at a time, into accumulators that stay in the L1 cache, and then written out. Either way each
// input is read once and each output written once, and every element sees the same operations in the same order.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/reduce/kernels.h"
#include "core/reduce/operators-inl.h"
#include "core/reduce/packs-inl.h"
#include "hwy/highway.h"

#if defined(XOE_REDUCE_PASSES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef XOE_REDUCE_PASSES_INL_H_
#undef XOE_REDUCE_PASSES_INL_H_
#else
#define XOE_REDUCE_PASSES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace xoe::reduce::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What one pass over memory reads and writes.
template <class Elem, class Acc>
struct Streams {
  const Elem* in[4] = {};
  Elem* out[2] = {};
  Acc* acc = nullptr;
  Acc divisor = Acc{1};  // what Op::finish takes
};

// acc (if kFromAcc), in[0] ... in[kIns-1] combined -> out[0] ... out[kOuts-1], or acc where kOuts is 0. Without acc it
// ends early, and says where, before an average whose sum is infinite.
template <class Op, int kIns, int kOuts, bool kFromAcc>
struct Pass {
  template <class P, int kUnroll, class S>
  static HWY_INLINE std::size_t steps(const S& streams, std::size_t i, std::size_t count) {
    const S s = streams;  // locals: stores through `out` cannot change them
    const std::size_t step = P::lanes();
    for (; i + kUnroll * step <= count; i += kUnroll * step) {
      typename P::Pack value[kUnroll];
      for (int u = 0; u < kUnroll; ++u) {
        const std::size_t at = i + static_cast<std::size_t>(u) * step;
        if constexpr (kFromAcc) {
          value[u] = P::load_acc(s.acc + at);
        } else {
          value[u] = P::load(s.in[0] + at);
        }
        for (int k = kFromAcc ? 0 : 1; k < kIns; ++k) {
          value[u] = P::template combine<Op>(value[u], P::load(s.in[k] + at));
        }
      }
      if constexpr (Op::kAverages && kOuts > 0 && !kFromAcc) {
        bool infinite = false;
        for (int u = 0; u < kUnroll; ++u) infinite |= P::any_infinite(value[u]);
        if (HWY_UNLIKELY(infinite)) return i;
      }
      if constexpr (kOuts > 0)
        for (int u = 0; u < kUnroll; ++u) value[u] = P::template finish<Op>(value[u], s.divisor);
      for (int u = 0; u < kUnroll; ++u) {
        const std::size_t at = i + static_cast<std::size_t>(u) * step;
        if constexpr (kOuts == 0) P::store_acc(value[u], s.acc + at);
        for (int k = 0; k < kOuts; ++k) P::store(value[u], s.out[k] + at);
      }
    }
    return i;
  }

  // `Type` names the packs of an element type: Wide for the body, Four and One for the rest.
  template <class Type, class S>
  static std::size_t run(const S& streams, std::size_t count) {
    std::size_t i = 0;
    if (count >= Type::Four::lanes()) {
      i = steps<typename Type::Wide, 4>(streams, i, count);
      i = steps<typename Type::Wide, 1>(streams, i, count);
      i = steps<typename Type::Four, 1>(streams, i, count);
    }
    return steps<typename Type::One, 1>(streams, i, count);
  }
};

template <class Type, class Op>
class Reduction {
 public:
  using Elem = typename Type::One::Elem;
  using Acc = typename Type::One::Acc;
  using S = Streams<Elem, Acc>;

  Reduction(Outs outs, Ins ins, Acc divisor) : outs_(outs), ins_(ins), divisor_(divisor) {}

  void run(std::size_t count) const {
    if (direct() && outs_.size() == 1) return one_pass<1>(0, count);
    if (direct() && ins_.size() == 2 && outs_.size() == 2) return one_pass<2>(0, count);
    for (std::size_t at = 0; at < count; at += kBlock) {
      const std::size_t n = std::min(kBlock, count - at);
      if (direct()) {
        one_pass<1>(at, n);
      } else {
        through_accumulators(at, n);
      }
      for (std::size_t k = 1; k < outs_.size(); ++k) copy(out(0) + at, out(k) + at, n);
    }
  }

 private:
  static constexpr std::size_t kBlock = 2048;
  static constexpr std::size_t kRescaled = 256;  // elements at a time: where one is infinite, others often are
  using Base = typename Op::Base;

  const Elem* in(std::size_t k) const { return static_cast<const Elem*>(ins_[k]); }
  Elem* out(std::size_t k) const { return static_cast<Elem*>(outs_[k]); }
  bool direct() const { return ins_.size() <= Op::kDirectIns; }

  // Elements [at, at + n) of few inputs into the first kOuts outputs.
  template <int kOuts>
  void one_pass(std::size_t at, std::size_t n) const {
    S s{{}, {}, nullptr, divisor_};
    for (std::size_t k = 0; k < ins_.size(); ++k) s.in[k] = in(k) + at;
    for (std::size_t k = 0; k < kOuts; ++k) s.out[k] = out(k) + at;
    if constexpr (Op::kDirectIns >= 4 && kOuts == 1) {
      if (ins_.size() == 3) return finish<Pass<Op, 3, 1, false>, 1>(s, at, n);
      if (ins_.size() == 4) return finish<Pass<Op, 4, 1, false>, 1>(s, at, n);
    }
    if constexpr (Op::kDirectIns >= 2) return finish<Pass<Op, 2, kOuts, false>, kOuts>(s, at, n);
  }

  // A pass over inputs that writes elements [at, at + n) of the first kOuts outputs.
  template <class Last, int kOuts>
  void finish(S s, std::size_t at, std::size_t n) const {
    std::size_t done = Last::template run<Type>(s, n);
    if constexpr (Op::kAverages) {
      for (std::size_t passed = 0; done < n;) {
        const std::size_t some = std::min(kRescaled, n - done);
        rescale(at + done, some, kOuts);
        done += some;
        for (const Elem*& in : s.in) in = in == nullptr ? nullptr : in + (done - passed);
        for (Elem*& out : s.out) out = out == nullptr ? nullptr : out + (done - passed);
        passed = done;
        done += Last::template run<Type>(s, n - done);
      }
    }
  }

  // Averages, of which some have sums that leave the range of their type. Those are computed from inputs that are
  // scaled by a power of two, which gives the bits of a type with larger exponents.
  void rescale(std::size_t at, std::size_t n, std::size_t outs) const {
    using One = typename Type::One;
    const auto inputs = static_cast<double>(ins_.size());
    const double scale = 1.0 / static_cast<double>(std::bit_ceil(ins_.size() + 1));
    const Acc divisor = Op::kDivides ? static_cast<Acc>(inputs * scale) : static_cast<Acc>(1 / (inputs * scale));
    for (std::size_t i = at; i < at + n; ++i) {
      auto sum = sum_at(i, Acc{1});
      const bool overflowed = One::any_infinite(sum) && finite_at(i);
      if (overflowed) sum = sum_at(i, static_cast<Acc>(scale));
      sum = One::template finish<Op>(sum, overflowed ? divisor : divisor_);
      // It was at most the largest finite number before it was rounded.
      if (overflowed && One::any_infinite(sum)) sum = One::clamp(sum);
      for (std::size_t k = 0; k < outs; ++k) One::store(sum, out(k) + i);
    }
  }

  typename Type::One::Pack sum_at(std::size_t i, Acc scale) const {
    using One = typename Type::One;
    const auto factor = One::load_acc(&scale);
    auto sum = One::template combine<ProductOp>(One::load(in(0) + i), factor);
    for (std::size_t k = 1; k < ins_.size(); ++k)
      sum = One::template combine<Op>(sum, One::template combine<ProductOp>(One::load(in(k) + i), factor));
    return sum;
  }

  bool finite_at(std::size_t i) const {
    using One = typename Type::One;
    for (std::size_t k = 0; k < ins_.size(); ++k)
      if (One::any_infinite(One::load(in(k) + i))) return false;
    return true;
  }

  // Elements [at, at + n) of any number of inputs, two or more, into the first output.
  void through_accumulators(std::size_t at, std::size_t n) const {
    alignas(64) Acc acc[kBlock];
    S s{{in(0) + at, in(1) + at}, {out(0) + at}, acc, divisor_};
    Pass<Base, 2, 0, false>::template run<Type>(s, n);
    std::size_t k = 2;
    for (; ins_.size() - k >= 2; k += 2) {
      s.in[0] = in(k) + at;
      s.in[1] = in(k + 1) + at;
      Pass<Base, 2, 0, true>::template run<Type>(s, n);
    }
    if (k < ins_.size()) {
      s.in[0] = in(k) + at;
      Pass<Base, 1, 0, true>::template run<Type>(s, n);
    }
    if constexpr (Op::kAverages)
      if (any_infinite(acc, n)) return rescale(at, n, 1);
    Pass<Op, 0, 1, true>::template run<Type>(s, n);
  }

  // In whatever order they lie, which depends on the pack that stored them.
  static bool any_infinite(const Acc* values, std::size_t n) {
    const hn::ScalableTag<Acc> d;
    const std::size_t step = hn::Lanes(d);
    auto found = hn::IsInf(hn::Zero(d));
    std::size_t i = 0;
    for (; i + step <= n; i += step) found = hn::Or(found, hn::IsInf(hn::LoadU(d, values + i)));
    bool any = !hn::AllFalse(d, found);
    for (; i < n; ++i) any |= std::abs(values[i]) > std::numeric_limits<Acc>::max();
    return any;
  }

  static void copy(const Elem* from, Elem* to, std::size_t n) {
    using Bytes = hn::ScalableTag<std::uint8_t>;
    const Bytes d;
    const auto* source = reinterpret_cast<const std::uint8_t*>(from);
    auto* target = reinterpret_cast<std::uint8_t*>(to);
    const std::size_t bytes = n * sizeof(Elem);
    const std::size_t step = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + step <= bytes; i += step) hn::StoreU(hn::LoadU(d, source + i), d, target + i);
    for (; i < bytes; ++i) target[i] = source[i];
  }

  Outs outs_;
  Ins ins_;
  Acc divisor_;
};

template <class Type>
void reduce(Outs outs, Ins ins, std::size_t count, ReduceOp op) {
  using Acc = typename Type::One::Acc;
  if (ins.size() == 1) {  // is its own sum, average, ...
    for (void* out : outs) std::memmove(out, ins[0], count * sizeof(typename Type::One::Elem));
    return;
  }
  const auto n = static_cast<Acc>(ins.size());
  const auto run = [&]<class Op>(Op, Acc divisor) { Reduction<Type, Op>(outs, ins, divisor).run(count); };
  if (op != ReduceOp::kAverage) return with_operator(op, [&](auto chosen) { run(chosen, n); });
  if (std::has_single_bit(ins.size())) return run(AverageByReciprocalOp(), Acc{1} / n);
  run(AverageOp(), n);
}

}  // namespace xoe::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
