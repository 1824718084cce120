// Adasum beside a plain recursive definition in float64.
#include "core/engine/execute/adasum.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include <gmock/gmock.h>

#include "core/reduce/reduce.h"
#include "core/tests/engine/ranks.h"

namespace xoe::engine {
namespace {

using ::testing::HasSubstr;
using Vector = std::vector<double>;

double inner(const Vector& a, const Vector& b) {
  long double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<long double>(a[i]) * b[i];
  return static_cast<double>(sum);
}

Vector expected_pair(const Vector& a, const Vector& b) {
  const double dot = inner(a, b), aa = inner(a, a), bb = inner(b, b);
  const double fa = aa == 0 ? 1 : 1 - dot / (2 * aa), fb = bb == 0 ? 1 : 1 - dot / (2 * bb);
  Vector result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] = fa * a[i] + fb * b[i];
  return result;
}

// The tree from its root: the left side is the largest full tree that leaves a right side.
Vector expected(std::span<const Vector> ranks) {
  if (ranks.size() == 1) return ranks[0];
  std::size_t left = 1;
  while (2 * left < ranks.size()) left *= 2;
  return expected_pair(expected(ranks.first(left)), expected(ranks.subspan(left)));
}

std::vector<std::byte> narrowed(const Vector& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * dtype_size(dtype));
  reduce::cast(values.data(), DType::kFloat64, bytes.data(), dtype, values.size());
  return bytes;
}

Vector widened(const std::vector<std::byte>& bytes, DType dtype) {
  Vector values(bytes.size() / dtype_size(dtype));
  reduce::cast(bytes.data(), dtype, values.data(), DType::kFloat64, values.size());
  return values;
}

// What rank r gives as tensor t. Ranks agree in part, so that dot products matter.
Vector input(int rank, std::size_t tensor, std::size_t count) {
  Random common(tensor + 1000), own(static_cast<std::uint64_t>(rank) * 97 + tensor);
  Vector values(count);
  for (double& x : values) x = common.normal() + (0.2 + 0.3 * rank) * own.normal();
  return values;
}

double tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return 0x1p-11;
    case DType::kBfloat16: return 0x1p-8;
    case DType::kFloat32: return 0x1p-21;
    default: return 1e-14;
  }
}

// [tensor] of one rank, as bytes, after adasum.
std::vector<std::vector<std::byte>> run_adasum(Communicator& comm, std::vector<std::vector<std::byte>> data,
                                               DType dtype) {
  std::vector<Tensor> tensors;
  for (auto& bytes : data) tensors.emplace_back(bytes.data(), bytes.size() / dtype_size(dtype), dtype);
  const Status status = drive(adasum(comm, tensors));
  EXPECT_TRUE(status) << status.error().to_string();
  return data;
}

class AdasumTest : public ::testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(AdasumTest, MatchesTheRecursiveDefinition) {
  const auto [size, dtype] = GetParam();
  const std::vector<std::vector<std::size_t>> lists = {{1}, {2}, {5}, {1000}, {40003}, {0, 3, 0}, {7, 1, 300, 0, 2000}};
  std::vector<std::vector<std::vector<std::vector<std::byte>>>> results(lists.size());
  for (auto& list : results) list.resize(static_cast<std::size_t>(size));
  testing::run_ranks(size, [&, dtype = dtype](Communicator& comm) {
    for (std::size_t l = 0; l < lists.size(); ++l) {
      std::vector<std::vector<std::byte>> data;
      for (std::size_t t = 0; t < lists[l].size(); ++t)
        data.push_back(narrowed(input(comm.rank(), t, lists[l][t]), dtype));
      results[l][static_cast<std::size_t>(comm.rank())] = run_adasum(comm, std::move(data), dtype);
    }
  });
  for (std::size_t l = 0; l < lists.size(); ++l) {
    for (std::size_t t = 0; t < lists[l].size(); ++t) {
      std::vector<std::vector<std::byte>> by_rank;
      std::vector<Vector> inputs;
      for (int r = 0; r < size; ++r) {
        by_rank.push_back(results[l][static_cast<std::size_t>(r)][t]);
        inputs.push_back(widened(narrowed(input(r, t, lists[l][t]), dtype), dtype));
      }
      expect_same_bits(by_rank);
      const Vector want = expected(inputs), got = widened(by_rank[0], dtype);
      double largest = 0;
      for (const double x : want) largest = std::max(largest, std::abs(x));
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i], tolerance(dtype) * largest) << "list " << l << " tensor " << t << " at " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, AdasumTest,
                         ::testing::Combine(::testing::Range(1, 9),
                                            ::testing::Values(DType::kFloat16, DType::kBfloat16, DType::kFloat32,
                                                              DType::kFloat64)),
                         [](const auto& param) {
                           return std::to_string(std::get<0>(param.param)) + "_" +
                                  std::string(dtype_name(std::get<1>(param.param)));
                         });

// One float32 tensor of each rank.
std::vector<std::vector<float>> floats_on(int size, const std::function<std::vector<float>(int)>& give) {
  return on_ranks<std::vector<float>>(size, [&](Communicator& comm) {
    auto values = give(comm.rank());
    const Tensor tensor(values.data(), values.size());
    EXPECT_TRUE(drive(adasum(comm, {&tensor, 1})));
    return values;
  });
}

TEST(Adasum, EqualVectorsStayAndOrthogonalOnesAddUp) {
  const auto equal = floats_on(8, [](int) { return std::vector<float>{3, -1, 0.5F}; });
  expect_same_bits(equal);
  EXPECT_EQ(equal[0], (std::vector<float>{3, -1, 0.5F}));
  const auto orthogonal = floats_on(5, [](int rank) {
    std::vector<float> unit(5, 0.0F);
    unit[static_cast<std::size_t>(rank)] = static_cast<float>(rank + 1);
    return unit;
  });
  EXPECT_EQ(orthogonal[0], (std::vector<float>{1, 2, 3, 4, 5}));
}

TEST(Adasum, ZeroVectorsGiveThePlainSum) {
  const auto zeros = floats_on(4, [](int) { return std::vector<float>(10, 0.0F); });
  EXPECT_EQ(zeros[2], std::vector<float>(10, 0.0F));
  const auto one = floats_on(3, [](int rank) { return std::vector<float>(10, rank == 1 ? 2.5F : 0.0F); });
  EXPECT_EQ(one[0], std::vector<float>(10, 2.5F));
  // Squares that float32 could not hold.
  const auto tiny = floats_on(2, [](int) { return std::vector<float>(10, 1e-30F); });
  EXPECT_EQ(tiny[0], std::vector<float>(10, 1e-30F));
}

TEST(Adasum, NothingToDo) {
  testing::run_ranks(3, [](Communicator& comm) {
    EXPECT_TRUE(drive(adasum(comm, {})));
    const Tensor none(static_cast<float*>(nullptr), 0);
    EXPECT_TRUE(drive(adasum(comm, {&none, 1})));
    EXPECT_TRUE(comm.barrier());
  });
}

TEST(Adasum, RefusesWhatItCannotCombine) {
  auto group = testing::make_group(1);
  float x = 0;
  double y = 0;
  std::int32_t i = 0;
  const auto error_of = [&](std::vector<Tensor> tensors) {
    const Status status = drive(adasum(group[0], tensors));
    EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
    return status.error().message();
  };
  EXPECT_THAT(error_of({Tensor(&x, 1), Tensor(&y, 1)}), HasSubstr("float32 and float64"));
  EXPECT_THAT(error_of({Tensor(&i, 1)}), HasSubstr("int32"));
  EXPECT_THAT(error_of({Tensor(static_cast<float*>(nullptr), 3)}), HasSubstr("null"));
}

TEST(Adasum, ALostRankEndsIt) {
  auto group = testing::make_group(3);
  group.pop_back();
  std::vector<std::jthread> threads;
  for (auto& comm : group) {
    threads.emplace_back([&] {
      std::vector<float> values(5000, 1.0F);
      const Tensor tensor(values.data(), values.size());
      const Status status = drive(adasum(comm, {&tensor, 1}));
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), Code::kPeerLost);
    });
  }
}

}  // namespace
}  // namespace xoe::engine
