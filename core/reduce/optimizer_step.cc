#include "core/reduce/optimizer_step.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "core/reduce/float_state.h"
#include "core/reduce/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/reduce/optimizer_step.cc"
#include "hwy/foreach_target.h"  // before highway.h: compiles this file once per instruction set
#include "hwy/highway.h"

#include "core/reduce/packs-inl.h"  // a block of its own, so that sorting leaves it behind foreach_target.h

// What all instruction sets share: an optimizer's numbers, rounded to float32 as PyTorch does, and what a pass reads
// and writes.
#ifndef XOE_REDUCE_OPTIMIZER_STEP_SHARED_
#define XOE_REDUCE_OPTIMIZER_STEP_SHARED_
namespace xoe::reduce {

struct SgdNumbers {
  float scale, decay, trust, momentum, undamped, minus_rate;
  bool scales, trusts, nesterov, maximize, first;
};

struct AdamNumbers {
  float scale, decay, shrink, mean_weight, beta2, square_weight, root_correction, epsilon, minus_step_size;
  bool scales, decoupled, maximize, from_mean;
};

struct LambNumbers {
  AdamNumbers adam;
  float mean_correction, square_correction, minus_rate;
};

struct StepStreams {
  void* parameter;
  float* master;
  const void* gradient;
  float* state[3];
};

}  // namespace xoe::reduce
#endif

HWY_BEFORE_NAMESPACE();
namespace xoe::reduce::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// a * b + c with one rounding, also where the processor has no such instruction.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V multiply_add([[maybe_unused]] D d, V a, V b, V c) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, b, c);
#else
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  HWY_ALIGN float x[kLanes], y[kLanes], z[kLanes];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  hn::Store(c, d, z);
  for (std::size_t i = 0; i < kLanes; ++i) z[i] = std::fma(x[i], y[i], z[i]);
  return hn::Load(d, z);
#endif
}

// Each of the following is the arithmetic of one pass: gradient g, parameter p and states of some lanes.

template <bool kMomentum>
struct SgdMath {
  static constexpr int kStates = kMomentum ? 1 : 0;
  static constexpr int kStored = kStates;
  static constexpr bool kReadsGradient = true;
  static constexpr bool kWritesParameter = true;

  SgdNumbers n;
  bool reads_states() const { return !n.first; }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE void step(D d, V g, V& p, V* state) const {
    if (n.scales) g = hn::Mul(g, hn::Set(d, n.scale));
    if (n.maximize) g = hn::Neg(g);
    if (n.decay != 0) g = multiply_add(d, p, hn::Set(d, n.decay), g);
    if (n.trusts) g = hn::Mul(g, hn::Set(d, n.trust));
    if constexpr (kMomentum) {
      const V momentum = hn::Set(d, n.momentum);
      state[0] = n.first ? g : multiply_add(d, g, hn::Set(d, n.undamped), hn::Mul(state[0], momentum));
      g = n.nesterov ? multiply_add(d, state[0], momentum, g) : state[0];
    }
    p = multiply_add(d, g, hn::Set(d, n.minus_rate), p);
  }
};

// The first part of Adam and LAMB: the gradient, and the states that follow it.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void follow_moments(D d, const AdamNumbers& n, V g, V* state) {
  const V from = n.from_mean ? state[0] : g;
  state[0] = multiply_add(d, hn::Set(d, n.mean_weight), hn::Sub(g, state[0]), from);
  const V weighted = hn::Mul(hn::Set(d, n.square_weight), g);
  state[1] = multiply_add(d, weighted, g, hn::Mul(state[1], hn::Set(d, n.beta2)));
}

template <bool kAmsgrad>
struct AdamMath {
  static constexpr int kStates = kAmsgrad ? 3 : 2;
  static constexpr int kStored = kStates;
  static constexpr bool kReadsGradient = true;
  static constexpr bool kWritesParameter = true;

  AdamNumbers n;
  static bool reads_states() { return true; }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE void step(D d, V g, V& p, V* state) const {
    if (n.scales) g = hn::Mul(g, hn::Set(d, n.scale));
    if (n.maximize) g = hn::Neg(g);
    if (n.decoupled) {
      p = hn::Mul(p, hn::Set(d, n.shrink));
    } else if (n.decay != 0) {
      g = multiply_add(d, p, hn::Set(d, n.decay), g);
    }
    follow_moments(d, n, g, state);
    V square = state[1];
    if constexpr (kAmsgrad) {  // as torch.maximum: NaN wins
      square = hn::IfThenElse(hn::Or(hn::Lt(state[2], square), hn::IsNaN(square)), square, state[2]);
      state[2] = square;
    }
    const V root = hn::Div(hn::Sqrt(square), hn::Set(d, n.root_correction));
    const V divisor = hn::Add(root, hn::Set(d, n.epsilon));
    p = hn::Add(p, hn::Div(hn::Mul(hn::Set(d, n.minus_step_size), state[0]), divisor));
  }
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE V lamb_update(D d, const LambNumbers& n, V p, V mean, V square) {
  const V root = hn::Sqrt(hn::Div(square, hn::Set(d, n.square_correction)));
  const V u = hn::Div(hn::Div(mean, hn::Set(d, n.mean_correction)), hn::Add(root, hn::Set(d, n.adam.epsilon)));
  return n.adam.decay != 0 ? multiply_add(d, p, hn::Set(d, n.adam.decay), u) : u;
}

// The third state receives the update.
struct LambMomentsMath {
  static constexpr int kStates = 2;
  static constexpr int kStored = 3;
  static constexpr bool kReadsGradient = true;
  static constexpr bool kWritesParameter = false;

  LambNumbers n;
  static bool reads_states() { return true; }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE void step(D d, V g, V& p, V* state) const {
    if (n.adam.scales) g = hn::Mul(g, hn::Set(d, n.adam.scale));
    if (n.adam.maximize) g = hn::Neg(g);
    follow_moments(d, n.adam, g, state);
    state[2] = lamb_update(d, n, p, state[0], state[1]);
  }
};

struct LambApplyMath {
  static constexpr int kStates = 2;
  static constexpr int kStored = 0;
  static constexpr bool kReadsGradient = false;
  static constexpr bool kWritesParameter = true;

  LambNumbers n;
  static bool reads_states() { return true; }
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE void step(D d, V, V& p, V* state) const {
    p = multiply_add(d, lamb_update(d, n, p, state[0], state[1]), hn::Set(d, n.minus_rate), p);
  }
};

// Numbers in memory as float32 lanes. kMaster: of the parameter, which is stored twice.
template <DType kType, class D>
struct StepPack {
  using Pack = HalfPack<D, std::conditional_t<kType == DType::kFloat16, Float16, Bfloat16>>;
  static HWY_INLINE hn::Vec<D> load(const void* p, std::size_t i) {
    return Pack::load(static_cast<const std::uint16_t*>(p) + i);
  }
  static HWY_INLINE hn::Vec<D> load_parameter(const StepStreams& s, std::size_t i) {
    return load_anywhere(D(), s.master + i);
  }
  static HWY_INLINE void store_parameter(hn::Vec<D> v, const StepStreams& s, std::size_t i) {
    store_anywhere(v, D(), s.master + i);
    Pack::store(v, static_cast<std::uint16_t*>(s.parameter) + i);
  }
};

template <class D>
struct StepPack<DType::kFloat32, D> {
  static HWY_INLINE hn::Vec<D> load(const void* p, std::size_t i) {
    return load_anywhere(D(), static_cast<const float*>(p) + i);
  }
  static HWY_INLINE hn::Vec<D> load_parameter(const StepStreams& s, std::size_t i) { return load(s.parameter, i); }
  static HWY_INLINE void store_parameter(hn::Vec<D> v, const StepStreams& s, std::size_t i) {
    store_anywhere(v, D(), static_cast<float*>(s.parameter) + i);
  }
};

// The same NaN on all processors, whose instructions disagree on signs and payloads.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V canonical(D d, V v) {
  return hn::IfThenElse(hn::IsNaN(v), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), v);
}

template <class Math, DType kType, DType kGradient, class D>
HWY_INLINE std::size_t step_lanes(D d, const Math& math, const StepStreams& streams, std::size_t i, std::size_t count) {
  const StepStreams s = streams;  // locals: stores cannot change them
  const Math m = math;
  const std::size_t lanes = hn::Lanes(d);
  const bool reads_states = m.reads_states();
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<D> state[3] = {hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    if (reads_states)
      for (int k = 0; k < Math::kStates; ++k) state[k] = load_anywhere(d, s.state[k] + i);
    hn::Vec<D> g = hn::Zero(d);
    if constexpr (Math::kReadsGradient) g = StepPack<kGradient, D>::load(s.gradient, i);
    hn::Vec<D> p = StepPack<kType, D>::load_parameter(s, i);
    m.step(d, g, p, state);
    for (int k = 0; k < Math::kStored; ++k) store_anywhere(canonical(d, state[k]), d, s.state[k] + i);
    if constexpr (Math::kWritesParameter) StepPack<kType, D>::store_parameter(canonical(d, p), s, i);
  }
  return i;
}

template <class Math, DType kType, DType kGradient>
void step_all(const Math& math, const StepStreams& streams, std::size_t count) {
  const std::size_t i = step_lanes<Math, kType, kGradient>(hn::ScalableTag<float>(), math, streams, 0, count);
  step_lanes<Math, kType, kGradient>(hn::CappedTag<float, 1>(), math, streams, i, count);
}

template <class Math>
void step_types(const Math& math, DType type, DType gradient, const StepStreams& s, std::size_t count) {
  constexpr DType kWide = DType::kFloat32;
  if (type == DType::kFloat16) {
    if (gradient == kWide) return step_all<Math, DType::kFloat16, kWide>(math, s, count);
    return step_all<Math, DType::kFloat16, DType::kFloat16>(math, s, count);
  }
  if (type == DType::kBfloat16) {
    if (gradient == kWide) return step_all<Math, DType::kBfloat16, kWide>(math, s, count);
    return step_all<Math, DType::kBfloat16, DType::kBfloat16>(math, s, count);
  }
  step_all<Math, kWide, kWide>(math, s, count);
}

void sgd_pass(const SgdNumbers& n, DType type, DType gradient, const StepStreams& s, std::size_t count) {
  if (s.state[0] == nullptr) return step_types(SgdMath<false>{n}, type, gradient, s, count);
  step_types(SgdMath<true>{n}, type, gradient, s, count);
}

void adam_pass(const AdamNumbers& n, DType type, DType gradient, const StepStreams& s, std::size_t count) {
  if (s.state[2] == nullptr) return step_types(AdamMath<false>{n}, type, gradient, s, count);
  step_types(AdamMath<true>{n}, type, gradient, s, count);
}

void lamb_moments_pass(const LambNumbers& n, DType type, DType gradient, const StepStreams& s, std::size_t count) {
  step_types(LambMomentsMath{n}, type, gradient, s, count);
}

void lamb_apply_pass(const LambNumbers& n, DType type, const StepStreams& s, std::size_t count) {
  step_types(LambApplyMath{n}, type, DType::kFloat32, s, count);
}

// Sixteen sums: that of the elements i with i % 16 == k. A square is exact in float64, so that only additions round.
double sum_squares(const float* x, std::size_t count) {
  constexpr std::size_t kSums = 16;
  using Dd = hn::CappedTag<double, 8>;
  using Df = hn::Rebind<float, Dd>;
  constexpr std::size_t kLanes = hn::MaxLanes(Dd());
  constexpr std::size_t kVectors = kSums / kLanes;
  const Dd dd;
  HWY_ALIGN double sums[kSums];
  {
    hn::Vec<Dd> acc[kVectors];
    for (auto& sum : acc) sum = hn::Zero(dd);
    std::size_t i = 0;
    for (; i + kSums <= count; i += kSums) {
      for (std::size_t k = 0; k < kVectors; ++k) {
        const auto v = hn::PromoteTo(dd, load_anywhere(Df(), x + i + k * kLanes));
        acc[k] = hn::Add(acc[k], hn::Mul(v, v));
      }
    }
    for (std::size_t k = 0; k < kVectors; ++k) hn::Store(acc[k], dd, sums + k * kLanes);
    for (std::size_t k = 0; i + k < count; ++k) {
      const double v = hn::GetLane(load_anywhere(hn::CappedTag<float, 1>(), x + i + k));
      sums[k] += v * v;
    }
  }
  for (std::size_t half = kSums / 2; half > 0; half /= 2)
    for (std::size_t k = 0; k < half; ++k) sums[k] += sums[k + half];
  return sums[0];
}

}  // namespace xoe::reduce::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace xoe::reduce {

HWY_EXPORT(sgd_pass);
HWY_EXPORT(adam_pass);
HWY_EXPORT(lamb_moments_pass);
HWY_EXPORT(lamb_apply_pass);
HWY_EXPORT(sum_squares);

namespace {

// Elements between which several gradients are reduced, and norms are summed: their scratch stays in the L1 cache.
constexpr std::size_t kBlock = 2048;

template <class T>
T* advance(T* data, DType dtype, std::size_t elements) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return data == nullptr ? nullptr : static_cast<Byte*>(data) + elements * dtype_size(dtype);
}

StepStreams streams_of(const StepTensors& tensors, float* first, float* second = nullptr, float* third = nullptr) {
  return {tensors.parameter, tensors.master, nullptr, {first, second, third}};
}

// The streams `by` elements further; the gradient stays.
StepStreams advance(StepStreams s, const StepTensors& tensors, std::size_t by) {
  s.parameter = advance(s.parameter, tensors.dtype, by);
  if (s.master != nullptr) s.master += by;
  for (float*& state : s.state)
    if (state != nullptr) state += by;
  return s;
}

// Elements [at, at + n) of the gradients, reduced into `scratch` where there are several. n <= kBlock.
const void* reduced_gradient(const StepTensors& tensors, std::size_t at, std::size_t n, std::byte* scratch) {
  if (tensors.gradients.size() == 1) return advance(tensors.gradients[0], tensors.gradient_dtype, at);
  const void* ins[kMostGradients];
  std::ranges::transform(tensors.gradients, ins,
                         [&](const void* data) { return advance(data, tensors.gradient_dtype, at); });
  void* const out = scratch;
  reduce_into({&out, 1}, {ins, tensors.gradients.size()}, n, tensors.gradient_dtype, tensors.op);
  return scratch;
}

// Calls pass(streams, offset, count) for all elements: at once with one gradient, else block by block.
template <class Pass>
void over_gradients(const StepTensors& tensors, const StepStreams& streams, std::size_t block, const Pass& pass) {
  const DefaultFloatState state;
  alignas(64) std::byte scratch[kBlock * sizeof(float)];
  const std::size_t step = tensors.gradients.size() == 1 ? block : std::min(block, kBlock);
  for (std::size_t at = 0; at < tensors.count; at += step) {
    const std::size_t n = std::min(step, tensors.count - at);
    StepStreams here = advance(streams, tensors, at);
    here.gradient = reduced_gradient(tensors, at, n, scratch);
    pass(here, n);
  }
}

float rounded(double x) { return static_cast<float>(x); }

SgdNumbers numbers_of(const SgdOptions& o) {
  return {.scale = rounded(o.gradient_scale),
          .decay = rounded(o.weight_decay),
          .trust = rounded(o.trust),
          .momentum = rounded(o.momentum),
          .undamped = rounded(1 - o.dampening),
          .minus_rate = rounded(-o.learning_rate),
          .scales = o.gradient_scale != 1,
          .trusts = o.trust != 1,
          .nesterov = o.nesterov,
          .maximize = o.maximize,
          .first = o.first};
}

AdamNumbers numbers_of(const AdamOptions& o) {
  const double correction1 = 1 - std::pow(o.beta1, static_cast<double>(o.step));
  const double correction2 = 1 - std::pow(o.beta2, static_cast<double>(o.step));
  // torch.lerp: from the end that is nearer, so that a weight of 1 gives the gradient itself.
  const float weight = rounded(1 - o.beta1);
  const bool from_mean = weight < 0.5f;
  return {.scale = rounded(o.gradient_scale),
          .decay = rounded(o.weight_decay),
          .shrink = rounded(1 - o.learning_rate * o.weight_decay),
          .mean_weight = from_mean ? weight : weight - 1,
          .beta2 = rounded(o.beta2),
          .square_weight = rounded(1 - o.beta2),
          .root_correction = rounded(std::sqrt(correction2)),
          .epsilon = rounded(o.epsilon),
          .minus_step_size = rounded(-(o.learning_rate / correction1)),
          .scales = o.gradient_scale != 1,
          .decoupled = o.decoupled && o.weight_decay != 0,
          .maximize = o.maximize,
          .from_mean = from_mean};
}

LambNumbers lamb_numbers(const AdamOptions& o, double trust) {
  return {.adam = numbers_of(o),
          .mean_correction = rounded(1 - std::pow(o.beta1, static_cast<double>(o.step))),
          .square_correction = rounded(1 - std::pow(o.beta2, static_cast<double>(o.step))),
          .minus_rate = rounded(-o.learning_rate * trust)};
}

// Of n <= kBlock elements of any float type.
double block_norm(const void* data, DType dtype, std::size_t n) {
  if (dtype == DType::kFloat32) return squared_norm(static_cast<const float*>(data), n);
  alignas(64) float wide[kBlock];
  cast(data, dtype, wide, DType::kFloat32, n);
  return squared_norm(wide, n);
}

double parameter_norm(const StepTensors& tensors, const StepStreams& s, std::size_t n) {
  return block_norm(tensors.master != nullptr ? s.master : s.parameter, DType::kFloat32, n);
}

}  // namespace

double squared_norm(const float* x, std::size_t count) noexcept {
  const DefaultFloatState state;
  return HWY_DYNAMIC_DISPATCH(sum_squares)(x, count);
}

void sgd_step(const SgdOptions& options, const StepTensors& tensors, float* momentum) noexcept {
  const SgdNumbers numbers = numbers_of(options);
  over_gradients(tensors, streams_of(tensors, momentum), tensors.count, [&](const StepStreams& s, std::size_t n) {
    HWY_DYNAMIC_DISPATCH(sgd_pass)(numbers, tensors.dtype, tensors.gradient_dtype, s, n);
  });
}

void adam_step(const AdamOptions& options, const StepTensors& tensors, float* mean, float* square,
               float* largest) noexcept {
  const AdamNumbers numbers = numbers_of(options);
  over_gradients(tensors, streams_of(tensors, mean, square, largest), tensors.count,
                 [&](const StepStreams& s, std::size_t n) {
                   HWY_DYNAMIC_DISPATCH(adam_pass)(numbers, tensors.dtype, tensors.gradient_dtype, s, n);
                 });
}

SquaredNorms lars_norms(const SgdOptions& options, const StepTensors& tensors) noexcept {
  SquaredNorms norms;
  over_gradients(tensors, streams_of(tensors, nullptr), kBlock, [&](const StepStreams& s, std::size_t n) {
    norms.parameter += parameter_norm(tensors, s, n);
    norms.update += block_norm(s.gradient, tensors.gradient_dtype, n);
  });
  norms.update *= options.gradient_scale * options.gradient_scale;
  return norms;
}

double lars_trust(const SgdOptions& options, const SquaredNorms& norms, double coefficient, double epsilon) noexcept {
  const double p = std::sqrt(norms.parameter);
  const double g = std::sqrt(norms.update);
  if (p == 0 || g == 0) return 1;
  return coefficient * p / (g + options.weight_decay * p + epsilon);
}

SquaredNorms lamb_moments(const AdamOptions& options, const StepTensors& tensors, float* mean, float* square) noexcept {
  const LambNumbers numbers = lamb_numbers(options, 1);
  SquaredNorms norms;
  alignas(64) float update[kBlock];
  over_gradients(tensors, streams_of(tensors, mean, square), kBlock, [&](StepStreams s, std::size_t n) {
    s.state[2] = update;
    HWY_DYNAMIC_DISPATCH(lamb_moments_pass)(numbers, tensors.dtype, tensors.gradient_dtype, s, n);
    norms.parameter += parameter_norm(tensors, s, n);
    norms.update += squared_norm(update, n);
  });
  return norms;
}

double lamb_trust(const SquaredNorms& norms) noexcept {
  if (norms.parameter == 0 || norms.update == 0) return 1;
  return std::sqrt(norms.parameter) / std::sqrt(norms.update);
}

void lamb_apply(const AdamOptions& options, const StepTensors& tensors, const float* mean, const float* square,
                double trust) noexcept {
  const DefaultFloatState state;
  const LambNumbers numbers = lamb_numbers(options, trust);
  const StepStreams streams = streams_of(tensors, const_cast<float*>(mean), const_cast<float*>(square));
  HWY_DYNAMIC_DISPATCH(lamb_apply_pass)(numbers, tensors.dtype, streams, tensors.count);
}

}  // namespace xoe::reduce
#endif
