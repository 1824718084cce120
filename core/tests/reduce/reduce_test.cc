// reduce_into() for floating-point types.
#include "core/reduce/reduce.h"

#include <gtest/gtest.h>

#include "core/tests/reduce/reference.h"
#include "processor.h"

namespace xoe {
namespace {

using reference::Bfloat16;
using reference::Float16;
using reference::Float32;
using reference::Float64;

template <class F>
class FloatReduce : public testing::Test {};
using Floats = testing::Types<Float16, Bfloat16, Float32, Float64>;
TYPED_TEST_SUITE(FloatReduce, Floats);

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};

template <class Acc>
Acc combine(Acc a, Acc b, ReduceOp op) {
  if (op == ReduceOp::kSum || op == ReduceOp::kAverage) return a + b;
  if (op == ReduceOp::kProduct) return a * b;
  if (std::isnan(a)) return a;
  if (a == 0 && b == 0) return std::signbit(a) == (op == ReduceOp::kMin) ? a : b;
  if (op == ReduceOp::kMin) return a < b ? a : b;
  return a > b ? a : b;
}

// As if the type of the sum had larger exponents.
template <class F>
F mean_of_large(const std::vector<std::vector<F>>& ins, std::size_t i) {
  using Acc = decltype(F::widen(ins[0][i]));
  constexpr Acc kMost = std::numeric_limits<Acc>::max();
  const Acc n = static_cast<Acc>(ins.size());
  Acc acc = 0;
  for (const auto& in : ins) acc += std::ldexp(F::widen(in[i]), -10);
  return F::narrow(std::clamp(std::ldexp(acc / n, 10), -kMost, kMost));
}

template <class F>
F expected_at(const std::vector<std::vector<F>>& ins, std::size_t i, ReduceOp op) {
  auto acc = F::widen(ins[0][i]);
  for (std::size_t k = 1; k < ins.size(); ++k) acc = combine(acc, F::widen(ins[k][i]), op);
  if (op == ReduceOp::kAverage) {
    const bool finite = std::ranges::all_of(ins, [&](const auto& in) { return std::isfinite(F::widen(in[i])); });
    if (std::isinf(acc) && finite) return mean_of_large<F>(ins, i);
    acc /= static_cast<decltype(acc)>(ins.size());
  }
  return F::narrow(acc);
}

template <class F>
std::vector<std::vector<F>> inputs(std::size_t n, std::size_t count) {
  std::vector<std::vector<F>> result;
  for (std::size_t k = 0; k < n; ++k)
    result.push_back(reference::numbers<F>(count, static_cast<unsigned>(k * 977 + count)));
  return result;
}

// How the outs lie: apart from the ins; the first ins themselves; some of each.
enum class Place { kApart, kIns, kMixed };

template <class F>
void check(std::size_t n_ins, std::size_t n_outs, std::size_t count, ReduceOp op, Place place, std::size_t offset) {
  const auto values = inputs<F>(n_ins, count);
  std::vector<reference::Shifted<F>> in_memory, out_memory;
  std::vector<const void*> ins;
  std::vector<void*> outs;
  in_memory.reserve(n_ins);
  out_memory.reserve(n_outs);
  for (std::size_t k = 0; k < n_ins; ++k) {
    in_memory.emplace_back(values[k], offset + k % 3);
    ins.push_back(in_memory.back().data());
  }
  std::vector<const reference::Shifted<F>*> results;
  for (std::size_t k = 0; k < n_outs; ++k) {
    if (place == Place::kIns || (place == Place::kMixed && k % 2 == 0)) {
      const std::size_t reversed = n_ins - 1 - k % n_ins;
      outs.push_back(in_memory[reversed].data());
      results.push_back(&in_memory[reversed]);
    } else {
      out_memory.emplace_back(std::vector<F>(count), offset);
      outs.push_back(out_memory.back().data());
      results.push_back(&out_memory.back());
    }
  }
  if (n_outs == 1 && count % 2 == 1)
    reduce::reducer_for(F::kDType, op)(outs[0], ins, count);
  else
    reduce::reduce_into(outs, ins, count, F::kDType, op);
  for (std::size_t i = 0; i < count; ++i) {
    const F expected = expected_at(values, i, op);
    for (std::size_t k = 0; k < n_outs; ++k) {
      const F actual = (*results[k])[i];
      ASSERT_TRUE(reference::same_value(expected, actual))
          << n_ins << " ins, " << n_outs << " outs, count " << count << ", " << reduce_op_name(op) << ", element " << i
          << ", out " << k << ": expected " << F::widen(expected) << ", was " << F::widen(actual);
    }
  }
}

TYPED_TEST(FloatReduce, EqualsTheReference) {
  reference::for_each_target([](const char* target) {
    SCOPED_TRACE(target);
    for (const ReduceOp op : kOps) {
      for (const std::size_t n : {1, 2, 3, 4, 7, 8, 64}) {
        for (const std::size_t count : {1, 3, 15, 16, 17, 65, 100}) {
          check<TypeParam>(n, 1, count, op, Place::kApart, 0);
          check<TypeParam>(n, std::min<std::size_t>(n, 2), count, op, Place::kIns, 1);
          check<TypeParam>(n, n, count, op, Place::kIns, 0);
        }
        check<TypeParam>(n, 3, 1000, op, Place::kApart, 5);
        if (n > 1) check<TypeParam>(n, std::min<std::size_t>(n, 8), 2049, op, Place::kMixed, 2);
      }
    }
  });
}

TYPED_TEST(FloatReduce, LargeCounts) {
  for (const std::size_t n : {2, 5}) {
    check<TypeParam>(n, 1, 100003, ReduceOp::kSum, Place::kApart, 0);
    check<TypeParam>(n, 2, 100003, ReduceOp::kAverage, Place::kIns, 4);
    check<TypeParam>(n, n, 100003, ReduceOp::kSum, Place::kIns, 0);
  }
}

TYPED_TEST(FloatReduce, ZeroElementsTouchNothing) {
  const void* in[] = {nullptr, nullptr};
  void* out[] = {nullptr};
  reduce::reduce_into(out, in, 0, TypeParam::kDType, ReduceOp::kSum);
}

// Whatever the count, the place and the number of outputs: the same inputs give the same bits, NaN payloads included.
TYPED_TEST(FloatReduce, BitsDependOnTheInputsAlone) {
  using F = TypeParam;
  static constexpr std::size_t kCount = 211;
  reference::for_each_target([](const char* target) {
    SCOPED_TRACE(target);
    for (const std::size_t n : {1, 2, 3, 4, 5, 9}) {
      auto values = inputs<F>(n, kCount);
      std::mt19937_64 random(n);
      for (std::size_t i = 0; i < kCount; i += 3) {  // several NaN of different payloads meet
        for (auto& in : values) {
          std::uint64_t bits = ~std::uint64_t{0} << (sizeof(F) == 2 ? 7 : 20);
          bits ^= random() & 0x1F;
          bits ^= (random() & 1) << (8 * sizeof(F) - 1);
          std::memcpy(&in[i], &bits, sizeof(F));
        }
      }
      for (const ReduceOp op : kOps) {
        std::vector<F> whole(kCount), part(kCount), other(kCount), third(kCount);
        const auto run = [&](std::size_t from, std::size_t count, std::size_t n_outs) {
          std::vector<const void*> ins;
          for (auto& in : values) ins.push_back(in.data() + from);
          void* outs[] = {part.data() + from, other.data() + from, third.data() + from};
          reduce::reduce_into(std::span(outs, n_outs), ins, count, F::kDType, op);
        };
        run(0, kCount, 1);
        whole = part;
        for (const std::size_t step : {1, 2, 3, 5, 13, 31, 47, 100}) {
          for (const std::size_t n_outs : {1, 2, 3}) {
            std::memset(static_cast<void*>(part.data()), 0x55, kCount * sizeof(F));
            for (std::size_t at = 0; at < kCount; at += step) run(at, std::min(step, kCount - at), n_outs);
            ASSERT_EQ(std::memcmp(whole.data(), part.data(), kCount * sizeof(F)), 0)
                << n << " ins, " << reduce_op_name(op) << " in steps of " << step;
            for (const F* copy : {other.data(), third.data()}) {
              const bool written = n_outs > (copy == other.data() ? 1u : 2u);
              ASSERT_TRUE(!written || std::memcmp(whole.data(), copy, kCount * sizeof(F)) == 0);
            }
          }
        }
      }
    }
  });
}

template <class F>
F reduced(const std::vector<F>& values, ReduceOp op) {
  std::vector<const void*> ins;
  for (const F& value : values) ins.push_back(&value);
  F result{};
  void* out[] = {&result};
  reduce::reduce_into(out, ins, 1, F::kDType, op);
  return result;
}

// A mean lies between its inputs, whatever their sum.
TYPED_TEST(FloatReduce, TheAverageOfTheLargestNumbersIsFinite) {
  using F = TypeParam;
  using Acc = decltype(F::widen(F{}));
  Acc most = std::numeric_limits<Acc>::max();
  if (sizeof(F) == 2) most = static_cast<Acc>(F::kDType == DType::kFloat16 ? 65504.0 : 0x1.FEp127);
  const F large = F::narrow(most), negative = F::narrow(-most), zero = F::narrow(0);
  reference::for_each_target([&](const char* target) {
    SCOPED_TRACE(target);
    for (const std::size_t n : {2, 3, 4, 5, 7, 8, 64, 100}) {
      // Each sum is rounded once.
      const Acc least = most * (1 - static_cast<Acc>(n) * std::numeric_limits<Acc>::epsilon());
      const Acc mean = F::widen(reduced(std::vector<F>(n, large), ReduceOp::kAverage));
      EXPECT_TRUE(least <= mean && mean <= most) << n << ": " << mean;
      EXPECT_EQ(F::widen(reduced(std::vector<F>(n, negative), ReduceOp::kAverage)), -mean) << n;
    }
    EXPECT_EQ(F::widen(reduced<F>({large, large, negative, negative}, ReduceOp::kAverage)), 0);
    EXPECT_EQ(F::widen(reduced<F>({large, large, zero, zero}, ReduceOp::kAverage)), F::widen(F::narrow(most / 2)));
    const F infinite = F::narrow(std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isinf(F::widen(reduced<F>({large, infinite}, ReduceOp::kAverage))));
    EXPECT_TRUE(std::isnan(F::widen(reduced<F>({infinite, F::narrow(std::nan("")), large}, ReduceOp::kAverage))));
  });
}

// Among many, in place, with others around them: only those that need it are computed again.
TYPED_TEST(FloatReduce, AveragesOfLargeNumbersAmongOthers) {
  using F = TypeParam;
  for (const std::size_t n : {2, 3, 4, 6}) {
    for (const std::size_t count : {1, 17, 300, 5000}) {
      auto values = inputs<F>(n, count);
      for (std::size_t i = 0; i < count; i += 1 + i % 7)
        for (auto& in : values) in[i] = F::narrow(sizeof(F) == 8 ? 1.5e308 : 3.2e38);
      const auto before = values;
      std::vector<const void*> ins;
      for (auto& in : values) ins.push_back(in.data());
      std::vector<void*> outs;
      for (auto& in : values) outs.push_back(in.data());
      reduce::reduce_into(outs, ins, count, F::kDType, ReduceOp::kAverage);
      for (std::size_t i = 0; i < count; ++i)
        for (const auto& out : values)
          ASSERT_TRUE(reference::same_value(expected_at(before, i, ReduceOp::kAverage), out[i]))
              << n << " ins, element " << i << " of " << count << ": " << F::widen(out[i]);
    }
  }
}

// Whichever rank has the negative one.
TYPED_TEST(FloatReduce, NegativeZeroIsLessThanZero) {
  using F = TypeParam;
  const F zero = F::narrow(0.0), negative = F::narrow(-0.0);
  for (const auto& values :
       {std::vector<F>{zero, negative}, {negative, zero}, {negative, zero, zero, negative, zero}}) {
    EXPECT_TRUE(std::signbit(F::widen(reduced(values, ReduceOp::kMin))));
    EXPECT_FALSE(std::signbit(F::widen(reduced(values, ReduceOp::kMax))));
  }
}

// One rounding at the end: in 16 bits each step would lose the small addends.
TEST(HalfReduce, AccumulatesInFloat32) {
  const Float16 big = Float16::narrow(2048), small = Float16::narrow(0.75);
  std::vector<const void*> ins{&big};
  for (int k = 0; k < 8; ++k) ins.push_back(&small);
  Float16 sum{};
  void* out[] = {&sum};
  reduce::reduce_into(out, ins, 1, DType::kFloat16, ReduceOp::kSum);
  EXPECT_EQ(Float16::widen(sum), 2054.0f);
}

TEST(HalfReduce, SumMayPassTheRangeInBetween) {
  const Float16 values[] = {Float16::narrow(60000), Float16::narrow(60000), Float16::narrow(-60000)};
  const void* ins[] = {&values[0], &values[1], &values[2]};
  Float16 sum{};
  void* out[] = {&sum};
  reduce::reduce_into(out, ins, 1, DType::kFloat16, ReduceOp::kSum);
  EXPECT_EQ(Float16::widen(sum), 59999.0f + 1.0f);
}

// Programs flush subnormals, or round otherwise, in some of their threads; ranks must agree all the same.
TEST(FloatState, OfTheThreadDoesNotMatter) {
  const auto before = FloatModes::read();
  const auto changed = before | FloatModes::kFlushToZero | FloatModes::kRoundTowardZero;
  const auto sum_of = [](const float(&values)[2]) {
    const void* ins[] = {&values[0], &values[1]};
    float sum = 0;
    void* out[] = {&sum};
    reduce::reduce_into(out, ins, 1, DType::kFloat32, ReduceOp::kSum);
    return sum;
  };
  FloatModes::write(changed);
  const float tiny = sum_of({1e-40f, 1e-40f}), rounded = sum_of({1.0f, 0x1.8p-24f});
  const auto after = FloatModes::read();
  FloatModes::write(before);
  EXPECT_EQ(tiny, 2 * 1e-40f);
  EXPECT_EQ(rounded, 1.0f + 0x1p-23f);
  EXPECT_EQ(after & FloatModes::kAll, changed & FloatModes::kAll);
}

TEST(Supports, EverythingButTheAverageOfBool) {
  for (int dtype = 0; dtype < kDTypeCount; ++dtype) {
    for (const ReduceOp op : kOps) {
      const Status status = reduce::supports(static_cast<DType>(dtype), op);
      const bool meaningless = static_cast<DType>(dtype) == DType::kBool && op == ReduceOp::kAverage;
      EXPECT_EQ(status.has_value(), !meaningless);
      EXPECT_TRUE(status || status.error().code() == Code::kUnsupported);
    }
  }
}

}  // namespace
}  // namespace xoe
