#include "core/tests/comm/conformance.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "core/base/hash.h"
#include "core/reduce/reduce.h"
#include "core/tests/comm/element.h"

namespace xoe::testing {
namespace {

constexpr bool kSanitized = XOE_SANITIZED != 0;  // the build says so

// Of either sign and of 21 magnitudes, so that a sum depends on the order of its terms. Products of 8 ranks stay in
// range of float32.
double any_number(std::uint64_t n) {
  const std::uint64_t bits = mix(n + 1);
  const double fraction = 1.0 + static_cast<double>(bits & 0xFFFFFF) / 0x1p24;
  const double magnitude = std::ldexp(fraction, static_cast<int>(bits >> 24 & 0xFF) % 21 - 10);
  return (bits >> 32 & 1) != 0 ? -magnitude : magnitude;
}

// Exact in every type; 1 or 2 for products, so that 8 ranks stay in range of float16.
double small_whole_number(std::uint64_t n, DType dtype, ReduceOp op) {
  if (dtype == DType::kBool) return static_cast<double>(n % 3 == 0);
  if (op == ReduceOp::kProduct) return static_cast<double>(1 + n % 2);
  return static_cast<double>(n % 4);
}

// Room for one operation's input or output in private or shared memory.
class Memory {
 public:
  Memory(Communicator& communicator, std::size_t bytes, bool shared) {
    if (shared) {
      buffer_ = communicator.shared_buffer(bytes).value();
      data_ = buffer_.data();
    } else {
      private_.resize(bytes + 1);
      data_ = private_.data();
    }
  }
  std::byte* data() const { return data_; }

 private:
  SharedBuffer buffer_;
  std::vector<std::byte> private_;
  std::byte* data_;
};

class Checker {
 public:
  Checker(Communicator& communicator, DType dtype, const ConformanceGrid& grid)
      : comm_(communicator),
        dtype_(dtype),
        width_(dtype_size(dtype)),
        shared_(grid.shared),
        any_numbers_(grid.in_rank_order && is_float(dtype)) {}

  std::string allreduce(std::size_t count, ReduceOp op, bool in_place, bool with_handle) {
    Memory in(comm_, count * width_, shared_), separate(comm_, count * width_, shared_);
    fill(in.data(), count, comm_.rank(), 0, op);
    std::byte* out = in_place ? in.data() : separate.data();
    const ConstTensor from(in.data(), count, dtype_);
    const Tensor to(out, count, dtype_);
    Status status;
    if (with_handle) {
      auto handle = comm_.start_allreduce(from, to, op);
      if (!handle) return handle.error().to_string();
      status = handle->wait();
    } else {
      status = comm_.allreduce(from, to, op);
    }
    if (!status) return status.error().to_string();
    if (auto problem = compare(out, reduced(0, count, op)); !problem.empty())
      return fmt::format("allreduce {} {} count {} in place {}: {}", dtype_name(dtype_), reduce_op_name(op), count,
                         in_place, problem);
    return "";
  }

  std::string broadcast(std::size_t count) {
    Memory data(comm_, count * width_, shared_);
    for (int root = 0; root < comm_.size(); ++root) {
      fill(data.data(), count, comm_.rank(), 0, ReduceOp::kSum);
      if (auto s = comm_.broadcast({data.data(), count, dtype_}, root); !s) return s.error().to_string();
      if (auto problem = expect_elements(data.data(), count, root, 0); !problem.empty())
        return fmt::format("broadcast {} count {} root {}: {}", dtype_name(dtype_), count, root, problem);
    }
    return "";
  }

  std::string allgather(std::size_t count, bool in_place) {
    const auto counts = uneven(count);
    const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    const std::size_t mine = counts[me()], offset = prefix(counts, comm_.rank());
    Memory in(comm_, mine * width_, shared_), out(comm_, total * width_, shared_);
    std::byte* from = in_place ? out.data() + offset * width_ : in.data();
    fill(from, mine, comm_.rank(), 0, ReduceOp::kSum);
    if (auto s = comm_.allgather({from, mine, dtype_}, {out.data(), total, dtype_}, counts); !s)
      return s.error().to_string();
    for (int r = 0; r < comm_.size(); ++r)
      if (auto problem = expect_elements(out.data() + prefix(counts, r) * width_, counts[index(r)], r, 0);
          !problem.empty())
        return fmt::format("allgather {} count {} in place {} from {}: {}", dtype_name(dtype_), count, in_place, r,
                           problem);
    auto unknown = comm_.allgather({from, mine, dtype_});
    if (!unknown) return unknown.error().to_string();
    if (unknown->counts != counts || unknown->data.size() != total * width_ ||
        (total != 0 && std::memcmp(unknown->data.data(), out.data(), total * width_) != 0))
      return "allgather without counts differs";
    return "";
  }

  std::string reduce_scatter(std::size_t count, ReduceOp op, bool in_place) {
    const auto counts = uneven(count);
    const std::size_t total = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    const std::size_t mine = counts[me()], offset = prefix(counts, comm_.rank());
    Memory in(comm_, total * width_, shared_), separate(comm_, mine * width_, shared_);
    fill(in.data(), total, comm_.rank(), 0, op);
    std::byte* out = in_place ? in.data() + offset * width_ : separate.data();
    if (auto s = comm_.reduce_scatter({in.data(), total, dtype_}, {out, mine, dtype_}, counts, op); !s)
      return s.error().to_string();
    if (auto problem = compare(out, reduced(offset, mine, op)); !problem.empty())
      return fmt::format("reduce_scatter {} {} count {}: {}", dtype_name(dtype_), reduce_op_name(op), count, problem);
    return "";
  }

  std::string alltoall(std::size_t count) {
    // Rank s sends to rank q: count + s - q elements, or none.
    std::vector<std::size_t> send, recv;
    const auto pair = [&](int s, int q) { return (s * 3 + q) % 4 == 0 ? 0 : count + static_cast<std::size_t>(s) * 2; };
    for (int r = 0; r < comm_.size(); ++r) {
      send.push_back(pair(comm_.rank(), r));
      recv.push_back(pair(r, comm_.rank()));
    }
    auto told = comm_.alltoall_counts(send);
    if (!told) return told.error().to_string();
    if (*told != recv) return "alltoall_counts is wrong";
    const std::size_t sent = prefix(send, comm_.size()), received = prefix(recv, comm_.size());
    Memory in(comm_, sent * width_, shared_), out(comm_, received * width_, shared_);
    for (int q = 0; q < comm_.size(); ++q)
      fill(in.data() + prefix(send, q) * width_, send[index(q)], comm_.rank(), static_cast<std::size_t>(q) * 13,
           ReduceOp::kSum);
    if (auto s = comm_.alltoall({in.data(), sent, dtype_}, send, {out.data(), received, dtype_}, recv); !s)
      return s.error().to_string();
    for (int s = 0; s < comm_.size(); ++s)
      if (auto problem = expect_elements(out.data() + prefix(recv, s) * width_, recv[index(s)], s,
                                         static_cast<std::size_t>(comm_.rank()) * 13);
          !problem.empty())
        return fmt::format("alltoall {} count {} from {}: {}", dtype_name(dtype_), count, s, problem);
    return "";
  }

 private:
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  std::size_t me() const { return index(comm_.rank()); }

  // Rank r has count + r elements, every third rank none.
  std::vector<std::size_t> uneven(std::size_t count) const {
    std::vector<std::size_t> counts;
    for (int r = 0; r < comm_.size(); ++r) counts.push_back(r % 3 == 1 ? 0 : count + index(r));
    return counts;
  }
  static std::size_t prefix(std::span<const std::size_t> counts, int rank) {
    return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
  }

  double element(int rank, std::size_t i, ReduceOp op) const {
    const auto n = static_cast<std::uint64_t>(rank) * 7919 + i * 31 + i / 97;
    return any_numbers_ ? any_number(n) : small_whole_number(n, dtype_, op);
  }
  void fill(std::byte* at, std::size_t count, int rank, std::size_t first, ReduceOp op) const {
    for (std::size_t i = 0; i < count; ++i) store(at + i * width_, dtype_, element(rank, first + i, op));
  }
  std::string expect_elements(const std::byte* at, std::size_t count, int rank, std::size_t first) const {
    std::vector<std::byte> expected(count * width_);
    fill(expected.data(), count, rank, first, ReduceOp::kSum);
    return compare(at, expected);
  }

  // Elements [first, first + count) of all ranks, combined in the order of ranks.
  std::vector<std::byte> reduced(std::size_t first, std::size_t count, ReduceOp op) const {
    std::vector<std::vector<std::byte>> inputs;
    std::vector<const void*> ins;
    for (int rank = 0; rank < comm_.size(); ++rank) {
      fill(inputs.emplace_back(count * width_).data(), count, rank, first, op);
      ins.push_back(inputs.back().data());
    }
    std::vector<std::byte> result(count * width_);
    void* const outs[] = {result.data()};
    reduce::reduce_into(outs, ins, count, dtype_, op);
    return result;
  }

  // Bit by bit.
  std::string compare(const std::byte* actual, const std::vector<std::byte>& expected) const {
    if (expected.empty() || std::memcmp(actual, expected.data(), expected.size()) == 0) return "";
    std::size_t i = 0;
    while (std::memcmp(actual + i * width_, expected.data() + i * width_, width_) == 0) ++i;
    return fmt::format("element {} is {}, expected {}", i, load(actual + i * width_, dtype_),
                       load(expected.data() + i * width_, dtype_));
  }

  Communicator& comm_;
  DType dtype_;
  std::size_t width_;
  bool shared_;
  bool any_numbers_;
};

}  // namespace

ConformanceGrid thin_grid(int size, bool shared) {
  const auto n = static_cast<std::size_t>(size);
  return {.counts = {0, 1, n - 1, n, 1000, 100003},
          .dtypes = {DType::kFloat32, DType::kBfloat16, DType::kInt8},
          .ops = {ReduceOp::kSum, ReduceOp::kAverage},
          .shared = shared,
          .in_rank_order = false};
}

ConformanceGrid full_grid(int size, bool shared) {
  ConformanceGrid grid = thin_grid(size, shared);
  if (kSanitized) return grid;
  grid.dtypes.clear();
  grid.ops.clear();
  for (int d = 0; d < kDTypeCount; ++d) grid.dtypes.push_back(static_cast<DType>(d));
  for (int o = 0; o < kReduceOpCount; ++o) grid.ops.push_back(static_cast<ReduceOp>(o));
  return grid;
}

std::string check_conformance(Communicator& communicator, const ConformanceGrid& grid) {
  for (const DType dtype : grid.dtypes) {
    Checker check(communicator, dtype, grid);
    for (const std::size_t count : grid.counts) {
      for (const ReduceOp op : grid.ops) {
        if (!reduce::supports(dtype, op)) continue;
        for (const bool in_place : {false, true}) {
          if (auto p = check.allreduce(count, op, in_place, count % 2 == 0); !p.empty()) return p;
          if (auto p = check.reduce_scatter(count, op, in_place); !p.empty()) return p;
        }
      }
      if (auto p = check.broadcast(count); !p.empty()) return p;
      for (const bool in_place : {false, true})
        if (auto p = check.allgather(count, in_place); !p.empty()) return p;
      if (auto p = check.alltoall(count); !p.empty()) return p;
      if (auto s = communicator.barrier(); !s) return s.error().to_string();
    }
  }
  return "";
}

}  // namespace xoe::testing
