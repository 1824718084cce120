#include "core/tests/net/net_conformance.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "core/reduce/reduce.h"
#include "core/tests/comm/element.h"

namespace xoe::testing {
namespace {

constexpr bool kSanitized = XOE_SANITIZED != 0;  // the build says so

using Counts = std::vector<std::size_t>;
using Bytes = std::vector<std::byte>;

constexpr std::byte kUntouched{0xa5};

std::size_t index(int member) { return static_cast<std::size_t>(member); }
std::size_t total(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), std::size_t{0}); }
std::size_t prefix(const Counts& counts, int member) {
  return std::accumulate(counts.begin(), counts.begin() + member, std::size_t{0});
}

// Small whole numbers, exact in every type; 1 or 2 for products.
double element(int member, std::size_t i, DType dtype, ReduceOp op) {
  const auto n = static_cast<std::uint64_t>(member) * 7919 + i * 31 + i / 97;
  if (dtype == DType::kBool) return static_cast<double>(n % 3 == 0);
  if (op == ReduceOp::kProduct) return static_cast<double>(1 + n % 2);
  return static_cast<double>(n % 5);
}

void fill(std::byte* at, std::size_t count, DType dtype, int member, std::size_t first, ReduceOp op) {
  const std::size_t width = dtype_size(dtype);
  for (std::size_t i = 0; i < count; ++i) store(at + i * width, dtype, element(member, first + i, dtype, op));
}

// Values of both signs and several magnitudes, which use all bits of their type. In every third element the first two
// members cancel: there the order shows in 16-bit types too, which are added in float32.
Bytes rounding_values(int member, DType dtype, std::size_t count) {
  std::vector<double> values(count);
  std::uint64_t state = index(member) * 1'000'003 + count;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    const double unit = static_cast<double>(state >> 11) * 0x1p-53 - 0.5;
    values[i] = std::ldexp(unit, static_cast<int>(state >> 8 & 7) - 4);
    if (i % 3 == 0 && member < 2) values[i] = member == 0 ? 0x1p14 : -0x1p14;
  }
  Bytes bytes(count * dtype_size(dtype));
  reduce::cast(values.data(), DType::kFloat64, bytes.data(), dtype, count);
  return bytes;
}

class Checker {
 public:
  Checker(net::Net& net, int size, int self, DType dtype)
      : net_(net), size_(size), self_(self), dtype_(dtype), width_(dtype_size(dtype)) {}

  std::string allreduce(std::size_t count, ReduceOp op, bool in_place) {
    Bytes in = inputs(count, op), out(count * width_ + 1, kUntouched);
    const Bytes expected = reduced(count, op, 0, count);
    std::byte* const to = in_place ? in.data() : out.data();
    Collective c = reduction(CollectiveKind::kAllreduce, op, in.data(), count, to, count);
    if (auto s = run(c); !s.empty()) return s;
    if (!in_place && out.back() != kUntouched) return "wrote behind its end";
    return same(to, expected, fmt::format("allreduce {} count {} in place {}", reduce_op_name(op), count, in_place));
  }

  std::string reduce_scatter(std::size_t count, ReduceOp op, bool in_place) {
    const Counts counts = uneven(count);
    const std::size_t mine = counts[index(self_)], offset = prefix(counts, self_);
    Bytes in = inputs(total(counts), op), out(mine * width_ + 1, kUntouched);
    std::byte* const to = in_place ? in.data() + offset * width_ : out.data();
    Collective c = reduction(CollectiveKind::kReduceScatter, op, in.data(), total(counts), to, mine);
    c.send_counts = counts;
    if (auto s = run(c); !s.empty()) return s;
    return same(to, reduced(total(counts), op, offset, mine),
                fmt::format("reduce_scatter {} count {} in place {}", reduce_op_name(op), count, in_place));
  }

  std::string broadcast(std::size_t count, bool in_place) {
    for (int root = 0; root < size_; ++root) {
      Bytes data(count * width_ + 1, kUntouched), expected(count * width_);
      Bytes given(count * width_ + 1);
      fill(expected.data(), count, dtype_, root, 0, ReduceOp::kSum);
      fill(in_place ? data.data() : given.data(), count, dtype_, self_, 0, ReduceOp::kSum);
      Collective c = reduction(CollectiveKind::kBroadcast, ReduceOp::kSum, in_place ? data.data() : given.data(), count,
                               data.data(), count);
      c.root = root;
      if (auto s = run(c); !s.empty()) return s;
      if (auto s = same(data.data(), expected, fmt::format("broadcast count {} root {}", count, root)); !s.empty())
        return s;
    }
    return "";
  }

  std::string allgather(std::size_t count, bool in_place) {
    const Counts counts = uneven(count);
    const std::size_t mine = counts[index(self_)];
    Bytes in(mine * width_ + 1), out(total(counts) * width_ + 1, kUntouched), expected(total(counts) * width_);
    for (int m = 0; m < size_; ++m)
      fill(expected.data() + prefix(counts, m) * width_, counts[index(m)], dtype_, m, 0, ReduceOp::kSum);
    std::byte* const from = in_place ? out.data() + prefix(counts, self_) * width_ : in.data();
    fill(from, mine, dtype_, self_, 0, ReduceOp::kSum);
    Collective c = reduction(CollectiveKind::kAllgather, ReduceOp::kSum, from, mine, out.data(), total(counts));
    c.send_counts = counts;
    if (auto s = run(c); !s.empty()) return s;
    return same(out.data(), expected, fmt::format("allgather count {} in place {}", count, in_place));
  }

  std::string alltoall(std::size_t count) {
    Counts send, recv;
    const auto pair = [&](int s, int q) { return (s * 3 + q) % 4 == 0 ? 0 : count + index(s) * 2; };
    for (int m = 0; m < size_; ++m) {
      send.push_back(pair(self_, m));
      recv.push_back(pair(m, self_));
    }
    Bytes in(total(send) * width_ + 1), out(total(recv) * width_ + 1, kUntouched), expected(total(recv) * width_);
    for (int m = 0; m < size_; ++m) {
      fill(in.data() + prefix(send, m) * width_, send[index(m)], dtype_, self_, index(m) * 13, ReduceOp::kSum);
      fill(expected.data() + prefix(recv, m) * width_, recv[index(m)], dtype_, m, index(self_) * 13, ReduceOp::kSum);
    }
    Collective c =
        reduction(CollectiveKind::kAlltoall, ReduceOp::kSum, in.data(), total(send), out.data(), total(recv));
    c.send_counts = send;
    c.recv_counts = recv;
    if (auto s = run(c); !s.empty()) return s;
    return same(out.data(), expected, fmt::format("alltoall count {}", count));
  }

  std::string rank_order(std::size_t count) {
    std::vector<Bytes> inputs;
    std::vector<const void*> ins;
    for (int m = 0; m < size_; ++m) inputs.push_back(rounding_values(m, dtype_, count));
    for (const Bytes& input : inputs) ins.push_back(input.data());
    Bytes expected(count * width_);
    void* const outs[] = {expected.data()};
    reduce::reduce_into(outs, ins, count, dtype_, ReduceOp::kAverage);
    for (int turn = 0; turn < 2; ++turn) {  // the net's memory was in use before
      Bytes data = inputs[index(self_)];
      Collective c = reduction(CollectiveKind::kAllreduce, ReduceOp::kAverage, data.data(), count, data.data(), count);
      if (auto s = run(c); !s.empty()) return s;
      if (auto s = same(data.data(), expected, fmt::format("allreduce of {}", count)); !s.empty()) return s;
    }
    Counts counts(index(size_), count / index(size_));
    counts[0] += count % index(size_);
    const std::size_t mine = counts[index(self_)];
    const auto first = expected.begin() + static_cast<std::ptrdiff_t>(prefix(counts, self_) * width_);
    Bytes part(mine * width_);
    Collective c = reduction(CollectiveKind::kReduceScatter, ReduceOp::kAverage, inputs[index(self_)].data(), count,
                             part.data(), mine);
    c.send_counts = counts;
    if (auto s = run(c); !s.empty()) return s;
    return same(part.data(), Bytes(first, first + static_cast<std::ptrdiff_t>(part.size())),
                fmt::format("reduce_scatter of {}", count));
  }

  std::string barrier() { return run({.kind = CollectiveKind::kBarrier}); }

 private:
  Collective reduction(CollectiveKind kind, ReduceOp op, const void* in, std::size_t in_count, void* out,
                       std::size_t out_count) const {
    return {
        .kind = kind, .dtype = dtype_, .op = op, .in = in, .out = out, .in_count = in_count, .out_count = out_count};
  }

  std::string run(const Collective& c) {
    const Status status = net_.run(c, net::Clock::now() + std::chrono::seconds(60));
    return status ? "" : status.error().to_string();
  }

  Bytes inputs(std::size_t count, ReduceOp op) const {
    Bytes in(count * width_ + 1);
    fill(in.data(), count, dtype_, self_, 0, op);
    return in;
  }

  // Elements [first, first + count) of the reduction of all members' inputs.
  Bytes reduced(std::size_t of, ReduceOp op, std::size_t first, std::size_t count) const {
    std::vector<Bytes> inputs(index(size_));
    std::vector<const void*> ins;
    for (int m = 0; m < size_; ++m) {
      inputs[index(m)].resize(of * width_);
      fill(inputs[index(m)].data(), of, dtype_, m, 0, op);
      ins.push_back(inputs[index(m)].data() + first * width_);
    }
    Bytes result(count * width_);
    void* const outs[] = {result.data()};
    reduce::reduce_into(outs, ins, count, dtype_, op);
    return result;
  }

  // Member m has count + m elements, every third one none.
  Counts uneven(std::size_t count) const {
    Counts counts;
    for (int m = 0; m < size_; ++m) counts.push_back(m % 3 == 1 ? 0 : count + index(m));
    return counts;
  }

  std::string same(const std::byte* actual, const Bytes& expected, const std::string& what) const {
    if (expected.empty() || std::memcmp(actual, expected.data(), expected.size()) == 0) return "";
    std::size_t i = 0;
    while (std::memcmp(actual + i * width_, expected.data() + i * width_, width_) == 0) ++i;
    return fmt::format("{} {}: element {} is {}, expected {}", dtype_name(dtype_), what, i,
                       load(actual + i * width_, dtype_), load(expected.data() + i * width_, dtype_));
  }

  net::Net& net_;
  const int size_, self_;
  const DType dtype_;
  const std::size_t width_;
};

}  // namespace

NetGrid net_grid(int size) {
  const auto n = static_cast<std::size_t>(size);
  NetGrid grid{{0, 1, n - 1, n, 1000, 100003}, {}, {}};
  if (kSanitized || size > 3) {
    grid.dtypes = {DType::kFloat32, DType::kBfloat16, DType::kInt8};
    grid.ops = {ReduceOp::kSum, ReduceOp::kAverage};
    return grid;
  }
  for (int d = 0; d < kDTypeCount; ++d) grid.dtypes.push_back(static_cast<DType>(d));
  for (int o = 0; o < kReduceOpCount; ++o) grid.ops.push_back(static_cast<ReduceOp>(o));
  return grid;
}

std::string check_rank_order(net::Net& net, int size, int self, DType dtype, std::size_t count) {
  return Checker(net, size, self, dtype).rank_order(count);
}

std::string check_net(net::Net& net, int size, int self, const NetGrid& grid) {
  for (const DType dtype : grid.dtypes) {
    Checker check(net, size, self, dtype);
    for (const std::size_t count : grid.counts) {
      for (const bool in_place : {false, true}) {
        for (const ReduceOp op : grid.ops) {
          if (!reduce::supports(dtype, op)) continue;
          if (auto p = check.allreduce(count, op, in_place); !p.empty()) return p;
          if (auto p = check.reduce_scatter(count, op, in_place); !p.empty()) return p;
        }
        if (auto p = check.broadcast(count, in_place); !p.empty()) return p;
        if (auto p = check.allgather(count, in_place); !p.empty()) return p;
      }
      if (auto p = check.alltoall(count); !p.empty()) return p;
      if (auto p = check.barrier(); !p.empty()) return p;
    }
  }
  return "";
}

}  // namespace xoe::testing
