// reduce_into() for integers and bool.
#include <gtest/gtest.h>

#include <limits>

#include "core/reduce/reduce.h"
#include "core/tests/reduce/reference.h"

namespace xoe {
namespace {

template <class T>
class IntegerReduce : public testing::Test {};
using Integers = testing::Types<std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(IntegerReduce, Integers);

constexpr ReduceOp kIntegerOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                                    ReduceOp::kProduct};

// In 128 bits nothing overflows but products, which wrap there as they do anywhere below.
template <class T>
T expected_integer(const std::vector<std::vector<T>>& ins, std::size_t i, ReduceOp op) {
  __extension__ using Wide = __int128;
  __extension__ using Bits = unsigned __int128;
  Wide acc = ins[0][i];
  for (std::size_t k = 1; k < ins.size(); ++k) {
    const Wide x = ins[k][i];
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage: acc += x; break;
      case ReduceOp::kMin: acc = std::min(acc, x); break;
      case ReduceOp::kMax: acc = std::max(acc, x); break;
      case ReduceOp::kProduct: acc = static_cast<Wide>(static_cast<Bits>(acc) * static_cast<Bits>(x)); break;
    }
  }
  if (op == ReduceOp::kAverage) acc /= static_cast<Wide>(ins.size());
  return static_cast<T>(static_cast<std::uint64_t>(acc));
}

template <class T>
void check_integers(std::size_t n_ins, std::size_t n_outs, std::size_t count, ReduceOp op, bool in_place,
                    std::size_t offset) {
  std::mt19937_64 random(n_ins * 31 + count);
  std::vector<std::vector<T>> values(n_ins, std::vector<T>(count));
  for (auto& in : values) {
    for (T& x : in) x = static_cast<T>(random() >> (random() % 8 * 8));
  }
  std::vector<reference::Shifted<T>> in_memory, out_memory;
  in_memory.reserve(n_ins);
  out_memory.reserve(n_outs);
  std::vector<const void*> ins;
  std::vector<void*> outs;
  for (const auto& in : values) {
    in_memory.emplace_back(in, offset);
    ins.push_back(in_memory.back().data());
  }
  for (std::size_t k = 0; k < n_outs; ++k) {
    out_memory.emplace_back(std::vector<T>(count), offset);
    outs.push_back(in_place ? in_memory[n_ins - 1 - k].data() : out_memory.back().data());
  }
  reduce::reduce_into(outs, ins, count, dtype_of<T>(), op);
  for (std::size_t k = 0; k < n_outs; ++k) {
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(expected_integer(values, i, op), (in_place ? in_memory[n_ins - 1 - k] : out_memory[k])[i])
          << n_ins << " ins, " << reduce_op_name(op) << ", count " << count << ", element " << i << ", out " << k;
    }
  }
}

TYPED_TEST(IntegerReduce, EqualsTheReference) {
  reference::for_each_target([](const char* target) {
    SCOPED_TRACE(target);
    for (const ReduceOp op : kIntegerOps) {
      for (const std::size_t n : {1, 2, 3, 4, 7, 8, 64}) {
        for (const std::size_t count : {0, 1, 2, 3, 7, 16, 33, 100, 1000}) {
          check_integers<TypeParam>(n, 1, count, op, false, count % 3);
          check_integers<TypeParam>(n, std::min<std::size_t>(n, 2), count, op, true, 1);
        }
        check_integers<TypeParam>(n, n, 5003, op, true, 0);
      }
      check_integers<TypeParam>(2, 2, 100003, op, true, 0);
    }
  });
}

TEST(IntegerAverage, TruncatesTowardZeroAndDoesNotOverflow) {
  const std::int8_t a[] = {127, -128, -7, 7}, b[] = {127, -127, 0, 0};
  std::int8_t result[4];
  const void* ins[] = {a, b};
  void* outs[] = {result};
  reduce::reduce_into(outs, ins, 4, DType::kInt8, ReduceOp::kAverage);
  EXPECT_EQ(result[0], 127);
  EXPECT_EQ(result[1], -127);
  EXPECT_EQ(result[2], -3);
  EXPECT_EQ(result[3], 3);
}

TEST(IntegerAverage, OfTheLargestNumbersIsRepresentable) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  const std::int64_t a[] = {kMost, kLeast, kMost, kMost - 1}, b[] = {kMost, kLeast, kLeast, kMost};
  std::int64_t result[4];
  const void* ins[] = {a, b};
  void* outs[] = {result};
  reduce::reduce_into(outs, ins, 4, DType::kInt64, ReduceOp::kAverage);
  EXPECT_EQ(result[0], kMost);
  EXPECT_EQ(result[1], kLeast);
  EXPECT_EQ(result[2], 0);
  EXPECT_EQ(result[3], kMost - 1);
}

TEST(BoolReduce, AnyNonZeroByteIsTrue) {
  std::vector<std::uint8_t> a(256), b(256);
  for (std::size_t i = 0; i < 256; ++i) {
    a[i] = static_cast<std::uint8_t>(i);
    b[i] = static_cast<std::uint8_t>(i % 3 == 0 ? 0 : 256 - i);
  }
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProduct}) {
    const bool any = op == ReduceOp::kSum || op == ReduceOp::kMax;
    for (const std::size_t n : {1, 2, 3, 6}) {
      std::vector<const void*> ins;
      for (std::size_t k = 0; k < n; ++k) ins.push_back(k % 2 == 0 ? a.data() : b.data());
      std::vector<std::uint8_t> first(256, 9), second(256, 9);
      void* outs[] = {first.data(), second.data()};
      reduce::reduce_into(std::span(outs, n % 2 + 1), ins, 256, DType::kBool, op);
      for (std::size_t i = 0; i < 256; ++i) {
        const bool with_b = n > 1;
        const bool expected = any ? a[i] != 0 || (with_b && b[i] != 0) : a[i] != 0 && (!with_b || b[i] != 0);
        ASSERT_EQ(first[i], expected ? 1 : 0) << reduce_op_name(op) << " of " << n << ", element " << i;
        ASSERT_EQ(second[i], n % 2 == 1 ? first[i] : 9);
      }
    }
  }
}

}  // namespace
}  // namespace xoe
