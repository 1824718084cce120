// Codecs: what they send, their errors, and what they keep.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include <gmock/gmock.h>

#include "core/engine/execute/compress/codecs.h"
#include "core/engine/execute/compress/make_codec.h"
#include "core/tests/engine/ranks.h"

namespace xoe::engine {
namespace {

using ::testing::HasSubstr;
using Floats = std::vector<float>;

constexpr Compression kAll[] = {Compression::kNone,   Compression::kFloat16, Compression::kBfloat16,
                                Compression::kFloat8, Compression::kTopK,    Compression::kPowerSgd};

std::unique_ptr<Codec> codec_of(Compression kind, std::span<const std::int64_t> shape, bool feedback = false) {
  return make_codec({.kind = kind, .error_feedback = feedback, .top_k_ratio = 0.05}, shape).value();
}

Floats gradient(int rank, std::size_t count, double magnitude = 1.0) {
  return random_values(count, static_cast<std::uint64_t>(rank) + 10, magnitude);
}

std::vector<double> exact_sum(int size, std::size_t count, double magnitude = 1.0) {
  std::vector<double> sum(count);
  for (int r = 0; r < size; ++r) {
    const auto values = gradient(r, count, magnitude);
    for (std::size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

Floats reduced(Codec& codec, Communicator& comm, Floats values) {
  const Status status = drive(codec.allreduce(comm, values));
  EXPECT_TRUE(status) << status.error().to_string();
  return values;
}

std::vector<Floats> reduced_on(int size, Compression kind, std::vector<std::int64_t> shape, double magnitude = 1.0) {
  const auto count =
      static_cast<std::size_t>(std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
  return on_ranks<Floats>(size, [&](Communicator& comm) {
    return reduced(*codec_of(kind, shape), comm, gradient(comm.rank(), count, magnitude));
  });
}

TEST(Codecs, GiveTheSameBitsOnEveryRank) {
  const std::vector<std::vector<std::int64_t>> shapes = {{0}, {1}, {3}, {256}, {257}, {40, 1000}, {64, 3, 7}, {}};
  for (const int size : {1, 2, 3, 4, 7}) {
    for (const Compression kind : kAll) {
      for (const auto& shape : shapes) {
        SCOPED_TRACE(kind_name(kind) + " on " + std::to_string(size));
        expect_same_bits(reduced_on(size, kind, shape));
      }
    }
  }
}

TEST(Codecs, AloneChangeNothing) {
  for (const Compression kind : kAll) EXPECT_EQ(reduced_on(1, kind, {40, 100})[0], gradient(0, 4000));
}

TEST(Cast, KeepsItsErrorBound) {
  constexpr std::size_t kCount = 10007;
  for (const double magnitude : {1e-6, 1e-3, 1.0, 1000.0}) {
    for (const auto& [kind, unit, smallest] :
         {std::tuple(Compression::kFloat16, 0x1p-11, 0x1p-25), std::tuple(Compression::kBfloat16, 0x1p-8, 0.0)}) {
      const auto got = reduced_on(4, kind, {kCount}, magnitude)[0];
      const auto want = exact_sum(4, kCount, magnitude);
      std::vector<double> own(kCount);
      for (int r = 0; r < 4; ++r) {
        const auto values = gradient(r, kCount, magnitude);
        for (std::size_t i = 0; i < kCount; ++i) own[i] += std::abs(values[i]);
      }
      for (std::size_t i = 0; i < kCount; ++i)
        ASSERT_NEAR(got[i], want[i], 1.01 * unit * (own[i] + std::abs(want[i])) + 5 * smallest);
    }
  }
}

TEST(Float8, KeepsItsErrorBound) {
  constexpr std::size_t kCount = 5003;
  for (const int size : {2, 3, 4}) {
    const auto got = reduced_on(size, Compression::kFloat8, {kCount})[0];
    const auto want = exact_sum(size, kCount);
    std::vector<double> bound(kCount);
    for (int r = 0; r < size; ++r) {
      const auto values = gradient(r, kCount);
      for (std::size_t i = 0; i < kCount; ++i) bound[i] += std::max(std::abs(values[i]) / 16.0, 8 * 0x1p-17);
    }
    for (std::size_t i = 0; i < kCount; ++i) {
      const double sum_error = std::max((std::abs(want[i]) + bound[i]) / 16, 8.0 * size * 0x1p-17);
      ASSERT_NEAR(got[i], want[i], bound[i] + sum_error);
    }
  }
}

// By sorting everything.
std::vector<std::uint32_t> top_by_sorting(std::span<const float> values, std::size_t count) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto magnitude = [&](std::uint32_t i) {
    return std::isnan(values[i]) ? std::numeric_limits<double>::max() : std::abs(double{values[i]});
  };
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) { return magnitude(a) > magnitude(b); });
  order.resize(count);
  std::ranges::sort(order);
  return order;
}

TEST(TopSelector, FindsTheLargest) {
  TopSelector selector;
  for (const std::size_t n : {1, 2, 17, 1000, 30001}) {
    auto values = random_values(n, n);
    if (n > 100) values[3] = values[n - 2] = std::numeric_limits<float>::quiet_NaN();
    auto ties = values;
    for (float& x : ties) x = std::round(x * 2);
    const auto zeros = Floats(n, 0.0F);
    for (const std::size_t k : {std::size_t{1}, n / 100 + 1, n / 2 + 1, n})
      for (const Floats& list : {values, ties, zeros})
        ASSERT_THAT(selector.select(list, k), ::testing::ElementsAreArray(top_by_sorting(list, k))) << n << " " << k;
  }
}

TEST(TopK, SendsTheLargestAndKeepsTheRest) {
  constexpr std::size_t kCount = 2000, kSent = 100;
  const auto results = on_ranks<std::pair<Floats, Floats>>(3, [](Communicator& comm) {
    TopK codec(0.05);
    auto sum = reduced(codec, comm, gradient(comm.rank(), kCount));
    return std::pair(std::move(sum), Floats(codec.residual().begin(), codec.residual().end()));
  });
  Floats want(kCount, 0.0F);
  for (int r = 0; r < 3; ++r) {
    Floats rest = gradient(r, kCount);
    for (const std::uint32_t i : top_by_sorting(rest, kSent)) want[i] += std::exchange(rest[i], 0.0F);
    EXPECT_EQ(results[static_cast<std::size_t>(r)].second, rest);
  }
  EXPECT_EQ(results[0].first, want);
}

TEST(TopK, OfEverythingIsExact) {
  const auto results = on_ranks<Floats>(4, [](Communicator& comm) {
    TopK codec(1.0);
    return reduced(codec, comm, gradient(comm.rank(), 999));
  });
  const auto want = exact_sum(4, 999);
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(results[0][i], want[i], 1e-5);
}

// How far `got` is from `want`, as a part of it.
double relative_error(std::span<const float> got, std::span<const double> want) {
  double difference = 0, all = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    all += want[i] * want[i];
  }
  return std::sqrt(difference / all);
}

TEST(PowerSgd, IsExactForLowRank) {
  constexpr std::size_t kRows = 50, kCols = 70;
  const auto matrix = [](int rank) {  // of rank 1, another on each
    const auto u = random_values(kRows, static_cast<std::uint64_t>(rank)), v = random_values(kCols, 50U + rank);
    Floats m;
    for (const float x : u)
      for (const float y : v) m.push_back(x * y);
    return m;
  };
  std::vector<double> want(kRows * kCols);
  for (int r = 0; r < 3; ++r) {
    const auto m = matrix(r);
    for (std::size_t i = 0; i < m.size(); ++i) want[i] += m[i];
  }
  for (const int rank : {3, 4, 6}) {
    const auto results = on_ranks<Floats>(3, [&](Communicator& comm) {
      PowerSgd codec(std::vector<std::int64_t>{50, 7, 10}, rank);
      return reduced(codec, comm, matrix(comm.rank()));
    });
    EXPECT_LT(relative_error(results[0], want), 1e-5) << rank;
  }
}

TEST(PowerSgd, ZeroGradientsDoNotStopIt) {
  const std::vector<std::int64_t> shape = {40, 40};
  const auto results = on_ranks<Floats>(2, [&](Communicator& comm) {
    PowerSgd codec(shape, 2);
    EXPECT_EQ(reduced(codec, comm, Floats(1600, 0.0F)), Floats(1600, 0.0F));
    Floats last;
    for (const float magnitude : {1e-25F, 1.0F, 1e25F}) last = reduced(codec, comm, Floats(1600, magnitude));
    return last;
  });
  for (const float x : results[0]) ASSERT_NEAR(x, 2e25F, 1e21F);
}

TEST(PowerSgd, KnowsWhereItPays) {
  const auto pays = [](std::vector<std::int64_t> shape, int rank) { return PowerSgd::pays(shape, rank); };
  EXPECT_TRUE(pays({16, 16}, 4));
  EXPECT_FALSE(pays({16, 15}, 4));
  EXPECT_FALSE(pays({1000000}, 1));
  EXPECT_FALSE(pays({2, 1000000}, 2));
  EXPECT_FALSE(pays({}, 1));
  EXPECT_FALSE(pays({0, 100}, 1));
  EXPECT_TRUE(pays({64, 3, 7, 7}, 4));
  EXPECT_FALSE(pays({1000, 1000}, std::numeric_limits<int>::max()));
  const auto exact = reduced_on(3, Compression::kPowerSgd, {500});
  const auto want = exact_sum(3, 500);
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(exact[0][i], want[i], 1e-5);
}

TEST(PowerSgd, RefusesAnotherSize) {
  auto group = testing::make_group(1);
  PowerSgd codec(std::vector<std::int64_t>{20, 20}, 1);
  Floats values(399);
  const Status status = drive(codec.allreduce(group[0], values));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), Code::kInvalidArgument);
  EXPECT_THAT(status.error().message(), HasSubstr("399 values for a matrix of 20 x 20"));
}

// The figures of docs/guide/compression.md: normal values, 4 ranks, no step before; top-k sends 5 %, PowerSGD
// has rank 4. They are in the report of
// --gtest_output=json.
TEST(Codecs, RelativeErrorOfOneStep) {
  const auto want = exact_sum(4, 256 * 512);
  const std::vector<std::pair<Compression, double>> most = {
      {Compression::kNone, 1e-7},    {Compression::kFloat16, 4e-4}, {Compression::kBfloat16, 3e-3},
      {Compression::kFloat8, 0.045}, {Compression::kTopK, 0.95},    {Compression::kPowerSgd, 0.995}};
  for (const auto& [kind, limit] : most) {
    const double error = relative_error(reduced_on(4, kind, {256, 512})[0], want);
    RecordProperty(kind_name(kind), std::to_string(error));
    EXPECT_LT(error, limit) << kind_name(kind);
    EXPECT_GT(error, limit / 10) << kind_name(kind);
  }
}

TEST(Codecs, LostRanksEndThem) {
  for (const Compression kind : kAll) {
    auto group = testing::make_group(3);
    group.pop_back();
    std::vector<std::jthread> threads;
    for (auto& comm : group) {
      threads.emplace_back([&comm, kind] {
        const std::vector<std::int64_t> shape = {40, 40};
        const auto codec = codec_of(kind, shape);
        Floats values(1600, 1.0F);
        for (int step = 0; step < 2; ++step) {
          const Status status = drive(codec->allreduce(comm, values));
          ASSERT_FALSE(status) << kind_name(kind);
          EXPECT_EQ(status.error().code(), Code::kPeerLost);
        }
      });
    }
  }
}

TEST(MakeCodec, RefusesBadOptions) {
  const std::vector<std::int64_t> shape = {100, 100}, negative = {3, -1};
  const auto message = [](const CompressionOptions& options, std::span<const std::int64_t> of) {
    const auto codec = make_codec(options, of);
    EXPECT_FALSE(codec);
    EXPECT_EQ(codec.error().code(), Code::kInvalidArgument);
    return codec.error().message();
  };
  for (const double ratio : {0.0, -1.0, 1.01, std::nan("")})
    EXPECT_THAT(message({.kind = Compression::kTopK, .top_k_ratio = ratio}, shape), HasSubstr("ratio"));
  for (const int rank : {0, -3})
    EXPECT_THAT(message({.kind = Compression::kPowerSgd, .power_sgd_rank = rank}, shape), HasSubstr("rank"));
  EXPECT_THAT(message({.kind = Compression::kFloat8}, negative), HasSubstr("dimension of -1"));
  EXPECT_THAT(message({.kind = static_cast<Compression>(99)}, shape), HasSubstr("99"));
  // What a kind does not use does not matter.
  EXPECT_TRUE(make_codec({.kind = Compression::kFloat16, .top_k_ratio = -1, .power_sgd_rank = 0}, shape));
}

}  // namespace
}  // namespace xoe::engine
