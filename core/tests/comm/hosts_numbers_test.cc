// What reductions over several hosts promise about bits, with values that round.
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "core/backend/placement.h"
#include "core/base/float16.h"
#include "core/reduce/reduce.h"
#include "core/tests/comm/element.h"
#include "core/tests/comm/process_group.h"

namespace xoe::testing {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

// Values of many magnitudes and both signs; for products near 1.
Bytes values_of(int rank, std::size_t count, DType dtype, ReduceOp op) {
  Bytes bytes(count * dtype_size(dtype));
  std::uint64_t state = static_cast<std::uint64_t>(rank) * 1'000'003 + count;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const double unit = static_cast<double>(state >> 40) / (1 << 24) - 0.5;  // [-0.5, 0.5)
    double value = std::ldexp(unit, static_cast<int>(state >> 36 & 7));
    if (op == ReduceOp::kProduct) value = 1 + unit / 2;
    if (!is_float(dtype)) value = std::trunc(unit * 1e6);
    store(bytes.data() + i * dtype_size(dtype), dtype, value);
  }
  return bytes;
}

Bytes reduce_all(const std::vector<Bytes>& ins, std::size_t count, DType dtype, ReduceOp op) {
  Bytes out(count * dtype_size(dtype));
  std::vector<const void*> from;
  for (const Bytes& in : ins) from.push_back(in.data());
  void* const to[] = {out.data()};
  reduce::reduce_into(to, from, count, dtype, op);
  return out;
}

Bytes as(DType to, const Bytes& in, DType from) {
  const std::size_t count = in.size() / dtype_size(from);
  Bytes out(count * dtype_size(to));
  reduce::cast(in.data(), from, out.data(), to, count);
  return out;
}

// What one host has: all ranks in their order.
Bytes of_one_host(const std::vector<int>& hosts, std::size_t count, DType dtype, ReduceOp op) {
  std::vector<Bytes> ins;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) ins.push_back(values_of(rank, count, dtype, op));
  return reduce_all(ins, count, dtype, op);
}

// What communicator.h says: the ranks of each host in their order, then the hosts; 16-bit types in float32, rounded
// once, after the division of an average.
Bytes of_placement(const std::vector<int>& hosts, std::size_t count, DType dtype, ReduceOp op) {
  const Placement placement = make_placement(hosts, 0);
  const bool is_short = dtype_size(dtype) == 2;
  const DType wide = is_short ? DType::kFloat32 : dtype;
  const ReduceOp each = op == ReduceOp::kAverage ? ReduceOp::kSum : op;
  std::vector<Bytes> sums;
  for (const auto& ranks : placement.ranks_of) {
    std::vector<Bytes> ins;
    for (const int rank : ranks) {
      const Bytes own = values_of(rank, count, dtype, op);
      ins.push_back(is_short ? as(wide, own, dtype) : own);
    }
    sums.push_back(reduce_all(ins, count, wide, each));
  }
  Bytes all = reduce_all(sums, count, wide, each);
  if (op == ReduceOp::kAverage)
    for (std::size_t i = 0; i < count; ++i) {
      std::byte* const at = all.data() + i * dtype_size(wide);
      store(at, wide,
            wide == DType::kFloat32 ? static_cast<float>(load(at, wide)) / static_cast<float>(hosts.size())
                                    : load(at, wide) / static_cast<double>(hosts.size()));
    }
  return is_short ? as(dtype, all, wide) : all;
}

std::string difference(const Bytes& got, const Bytes& expected, DType dtype) {
  if (got == expected) return "";
  std::size_t different = 0, first = 0;
  const std::size_t width = dtype_size(dtype), count = got.size() / width;
  for (std::size_t i = count; i-- > 0;)
    if (std::memcmp(&got[i * width], &expected[i * width], width) != 0) ++different, first = i;
  return fmt::format("{} of {} differ, first [{}]: {} instead of {}", different, count, first,
                     load(&got[first * width], dtype), load(&expected[first * width], dtype));
}

using Expected = Bytes (*)(const std::vector<int>&, std::size_t, DType, ReduceOp);

// An allreduce, in place or not, and a reduce-scatter into uneven parts have the bits that `expected` has.
std::string check_bits(Communicator& communicator, const std::vector<int>& hosts, std::size_t count, DType dtype,
                       ReduceOp op, Expected expected) {
  const Bytes all = expected(hosts, count, dtype, op);
  const Bytes in = values_of(communicator.rank(), count, dtype, op);
  Bytes apart(in.size()), in_place = in;
  if (auto s = communicator.allreduce({in.data(), count, dtype}, {apart.data(), count, dtype}, op); !s)
    return s.error().to_string();
  if (auto s = communicator.allreduce({in_place.data(), count, dtype}, op); !s) return s.error().to_string();
  const auto where = [&](const char* what) {
    return fmt::format("{} {} {} of {}: ", what, reduce_op_name(op), dtype_name(dtype), count);
  };
  if (auto problem = difference(apart, all, dtype); !problem.empty()) return where("allreduce") + problem;
  if (auto problem = difference(in_place, all, dtype); !problem.empty()) return where("allreduce in place") + problem;

  std::vector<std::size_t> counts(hosts.size(), count / hosts.size());
  counts.front() += count % hosts.size();
  std::size_t start = 0;
  for (int rank = 0; rank < communicator.rank(); ++rank) start += counts[static_cast<std::size_t>(rank)];
  const std::size_t own = counts[static_cast<std::size_t>(communicator.rank())], width = dtype_size(dtype);
  Bytes part(own * width);
  if (auto s = communicator.reduce_scatter({in.data(), count, dtype}, {part.data(), own, dtype}, counts, op); !s)
    return s.error().to_string();
  const auto from = all.begin() + static_cast<std::ptrdiff_t>(start * width);
  const Bytes expected_part(from, from + static_cast<std::ptrdiff_t>(part.size()));
  if (auto problem = difference(part, expected_part, dtype); !problem.empty()) return where("reduce-scatter") + problem;
  return "";
}

std::string check_all(Communicator& communicator, const std::vector<int>& hosts, std::initializer_list<DType> dtypes,
                      Expected expected) {
  for (const DType dtype : dtypes)
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kProduct})
      for (const std::size_t count : {1, 1000, 5000, 100'003})  // with the headers, at once, on one rail, on all rails
        if (auto problem = check_bits(communicator, hosts, count, dtype, op, expected); !problem.empty())
          return problem;
  return "";
}

std::vector<std::vector<int>> placements() {
  if (XOE_SANITIZED != 0) return {{0, 0, 1}};
  return {{0, 1}, {0, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 1}, {0, 1, 1, 0, 2, 2, 0}};
}

TEST(NumbersOverHosts, HostsInTheirOrderAndShortFloatsRoundedOnce) {
  for (const auto& hosts : placements())
    ProcessGroup(hosts, [&](Communicator& communicator) {
      return check_all(communicator, hosts, {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16},
                       of_placement);
    }).expect_success();
}

TEST(NumbersOverHosts, PlacementFreeHasTheBitsOfOneHost) {
  for (const auto& hosts : placements())
    ProcessGroup(hosts,
                 [&](Communicator& communicator) {
                   return check_all(communicator, hosts,
                                    {DType::kFloat32, DType::kFloat16, DType::kBfloat16, DType::kInt32}, of_one_host);
                 },
                 {{"XOE_DETERMINISTIC", "placement-free"}})
        .expect_success();
}

TEST(NumbersOverHosts, AHostsSumMayLieBeyondTheTypesRange) {
  const std::vector<int> hosts{0, 0, 1, 1};
  ProcessGroup(hosts, [](Communicator& communicator) -> std::string {
    std::vector<Float16> values(30'000, static_cast<Float16>(communicator.rank() < 2 ? 60000 : -60000));
    for (const std::size_t count : {std::size_t{10}, values.size()}) {
      std::vector<Float16> sum(count);
      const ConstTensor in(values.data(), count, DType::kFloat16);
      if (auto s = communicator.allreduce(in, {sum.data(), count, DType::kFloat16}); !s) return s.error().to_string();
      for (const Float16 value : sum)
        if (static_cast<float>(value) != 0) return fmt::format("{} of {}", static_cast<float>(value), count);
    }
    return "";
  }).expect_success();
}

double largest(DType dtype) {
  if (dtype == DType::kFloat64) return std::numeric_limits<double>::max();
  if (dtype == DType::kFloat16) return 65504;
  return dtype == DType::kFloat32 ? static_cast<double>(std::numeric_limits<float>::max()) : 0x1.FEp127;
}

// Large ones, large ones of both signs, small ones, and one that is infinite.
double mixed_value(int rank, std::size_t i, DType dtype) {
  if (i == 7) return rank == 0 ? HUGE_VAL : 1;
  if (i % 3 == 0) return largest(dtype);
  if (i % 3 == 1) return rank % 2 == 0 ? largest(dtype) : -largest(dtype);
  return rank + static_cast<double>(i % 100);
}

// The average of a column of the above. The sum of small ones is exact, so that theirs is the nearest number.
std::string check_average(double got, const std::vector<int>& hosts, std::size_t i, DType dtype) {
  long double sum = 0;
  for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) sum += mixed_value(rank, i, dtype);
  auto mean = static_cast<double>(sum / static_cast<long double>(hosts.size()));
  if (dtype == DType::kFloat32) mean = static_cast<double>(static_cast<float>(mean));
  const bool exact = i % 3 == 2 && dtype_size(dtype) > 2;
  const double tolerance = exact ? 0 : 0x1p-7 * (i % 3 == 2 ? mean : largest(dtype));
  if (got == mean || (std::isfinite(got) && std::abs(got - mean) <= tolerance)) return "";
  return fmt::format("{} [{}] is {} instead of {}", dtype_name(dtype), i, got, mean);
}

std::string check_averages(Communicator& communicator, const std::vector<int>& hosts, DType dtype, std::size_t count) {
  const std::size_t width = dtype_size(dtype), own = count / hosts.size();
  const std::vector<std::size_t> counts(hosts.size(), own);
  Bytes in(count * width), part(own * width);
  for (std::size_t i = 0; i < count; ++i) store(&in[i * width], dtype, mixed_value(communicator.rank(), i, dtype));
  const ConstTensor divisible(in.data(), own * hosts.size(), dtype);
  if (auto s = communicator.reduce_scatter(divisible, {part.data(), own, dtype}, counts, ReduceOp::kAverage); !s)
    return s.error().to_string();
  if (auto s = communicator.allreduce({in.data(), count, dtype}, ReduceOp::kAverage); !s) return s.error().to_string();
  for (std::size_t i = 0; i < count; ++i)
    if (auto problem = check_average(load(&in[i * width], dtype), hosts, i, dtype); !problem.empty()) return problem;
  const std::byte* const expected = &in[static_cast<std::size_t>(communicator.rank()) * own * width];
  if (std::memcmp(part.data(), expected, part.size()) != 0) return "a reduce-scatter has other bits";
  return "";
}

// A mean lies between its inputs, whatever the sums of the hosts.
TEST(NumbersOverHosts, TheAverageOfTheLargestNumbersIsFinite) {
  auto all = placements();
  all.push_back({0, 1, 2});
  for (const auto& hosts : all)
    ProcessGroup(hosts, [&](Communicator& communicator) -> std::string {
      for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBfloat16, DType::kFloat16})
        for (const std::size_t count : {8, 1000, 5000, 200'003})
          if (auto problem = check_averages(communicator, hosts, dtype, count); !problem.empty())
            return fmt::format("{} of {}", problem, count);
      return "";
    }).expect_success();
}

// A minimum takes -0 and a maximum +0, from any rank of any host.
std::string check_zeros(Communicator& communicator, int negative, DType dtype, std::size_t count) {
  const std::size_t width = dtype_size(dtype);
  for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
    Bytes values(count * width);
    for (std::size_t i = 0; i < count; ++i)
      store(&values[i * width], dtype, communicator.rank() == negative ? -0.0 : 0.0);
    if (auto s = communicator.allreduce({values.data(), count, dtype}, op); !s) return s.error().to_string();
    for (std::size_t i = 0; i < count; ++i)
      if (const double got = load(&values[i * width], dtype); got != 0 || std::signbit(got) != (op == ReduceOp::kMin))
        return fmt::format("{} of {}, -0 on rank {}: [{}] is {}", reduce_op_name(op), dtype_name(dtype), negative, i,
                           got);
  }
  return "";
}

TEST(NumbersOverHosts, ZerosHaveTheirOrder) {
  for (const auto& hosts : placements())
    ProcessGroup(hosts, [&](Communicator& communicator) -> std::string {
      for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBfloat16, DType::kFloat16})
        for (const std::size_t count : {1, 5000, 100'003})
          for (int negative = 0; negative < static_cast<int>(hosts.size()); ++negative)
            if (auto problem = check_zeros(communicator, negative, dtype, count); !problem.empty())
              return fmt::format("{}, of {}", problem, count);
      return "";
    }).expect_success();
}

// The sum of these numbers leaves 64 bits; their average is truncated toward zero.
std::int64_t large_integer(int rank, std::size_t i) {
  const std::int64_t from_end = 7 * rank + static_cast<std::int64_t>(i % 1000);
  return i % 2 == 0 ? std::numeric_limits<std::int64_t>::max() - from_end
                    : std::numeric_limits<std::int64_t>::min() + from_end;
}

TEST(NumbersOverHosts, AveragesOfIntegersAreExact) {
  __extension__ using Wide = __int128;
  for (const auto& hosts : placements())
    ProcessGroup(hosts, [&](Communicator& communicator) -> std::string {
      for (const std::size_t count : {1, 5000, 100'003}) {
        std::vector<std::int64_t> values(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = large_integer(communicator.rank(), i);
        if (auto s = communicator.allreduce(Tensor(values.data(), count), ReduceOp::kAverage); !s)
          return s.error().to_string();
        for (std::size_t i = 0; i < count; ++i) {
          Wide sum = 0;
          for (int rank = 0; rank < static_cast<int>(hosts.size()); ++rank) sum += large_integer(rank, i);
          const auto mean = static_cast<std::int64_t>(sum / static_cast<Wide>(hosts.size()));
          if (values[i] != mean) return fmt::format("[{}] of {} is {} instead of {}", i, count, values[i], mean);
        }
      }
      return "";
    }).expect_success();
}

TEST(NumbersOverHosts, RanksThatChooseDifferentOrdersAreTold) {
  const std::vector<int> hosts{0, 1};
  ::testing::internal::CaptureStderr();
  {
    ProcessGroup ranks(hosts, [](Communicator&) { return "joined"; }, {}, {{"XOE_DETERMINISTIC", "placement-free"}});
    for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(ranks.wait(rank), 1);
  }
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      HasSubstr("rank 0 has XOE_DETERMINISTIC=placement, rank 1 (host host1) has placement-free; set the same"));
}

}  // namespace
}  // namespace xoe::testing
