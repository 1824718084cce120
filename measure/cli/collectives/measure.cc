#include "measure/cli/collectives/measure.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "measure/cli/collectives/check_values.h"

namespace xoe::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kAlignment = 4096;

struct Free {
  void operator()(std::byte* data) const { std::free(data); }
};

// Memory of one kind.
class Buffer {
 public:
  static Result<Buffer> allocate(Communicator& comm, Memory memory, std::size_t bytes) {
    Buffer buffer;
    buffer.bytes_ = bytes;
    if (memory == Memory::kShared) {
      XOE_ASSIGN(buffer.shared_, comm.shared_buffer(std::max<std::size_t>(bytes, 1)));
      return buffer;
    }
    const std::size_t rounded = (bytes / kAlignment + 1) * kAlignment;
    buffer.owned_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    if (buffer.owned_ == nullptr)
      return failure(Code::kResourceExhausted, "no memory for a buffer of {} bytes; try a smaller --maxbytes", bytes);
    return buffer;
  }
  std::byte* data() const { return owned_ ? owned_.get() : shared_.data(); }
  std::span<std::byte> all() const { return {data(), bytes_}; }

 private:
  std::unique_ptr<std::byte, Free> owned_;
  SharedBuffer shared_;
  std::size_t bytes_ = 0;
};

// One collective on its two buffers, or on one.
class BufferedCollective {
 public:
  BufferedCollective(Communicator& comm, const CollectiveCase& one, const Buffer& first, const Buffer& second,
                     bool in_place)
      : comm_(comm), one_(one), counts_(static_cast<std::size_t>(comm.size()), one.block) {
    const std::size_t own = one.block * static_cast<std::size_t>(comm.rank()) * dtype_size(one.dtype);
    std::byte* in = first.data();
    std::byte* out = in_place ? first.data() : second.data();
    // In place a part lies where it belongs in the whole.
    if (in_place && one.kind == CollectiveKind::kAllGather) in += own;
    if (in_place && one.kind == CollectiveKind::kReduceScatter) out += own;
    in_ = {in, one.in_count() * dtype_size(one.dtype)};
    out_ = {out, one.out_count() * dtype_size(one.dtype)};
  }

  std::span<std::byte> in() const { return in_; }
  std::span<std::byte> out() const { return out_; }

  Status run() {
    const ConstTensor in(in_.data(), one_.in_count(), one_.dtype);
    const Tensor out(out_.data(), one_.out_count(), one_.dtype);
    switch (one_.kind) {
      case CollectiveKind::kAllReduce: return comm_.allreduce(in, out, one_.op);
      case CollectiveKind::kAllGather: return comm_.allgather(in, out, counts_);
      case CollectiveKind::kReduceScatter: return comm_.reduce_scatter(in, out, counts_, one_.op);
      case CollectiveKind::kAllToAll: return comm_.alltoall(in, counts_, out, counts_);
      case CollectiveKind::kBroadcast: return comm_.broadcast(out, one_.root);
    }
    return {};
  }

 private:
  Communicator& comm_;
  const CollectiveCase& one_;
  std::vector<std::size_t> counts_;
  std::span<std::byte> in_, out_;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Seconds of one collective on this rank.
Result<double> time(Communicator& comm, BufferedCollective& collective, const CollectiveCase& one,
                    const MeasureOptions& options) {
  fill_input(collective.in(), one, comm.rank());
  for (int i = 0; i < options.warmup; ++i) XOE_TRY(collective.run());
  double seconds = 0;
  if (!options.rewrite) {
    XOE_TRY(comm.barrier());
    const auto start = Clock::now();
    for (int i = 0; i < options.iterations; ++i) XOE_TRY(collective.run());
    return seconds_since(start) / options.iterations;
  }
  for (int i = 0; i < options.iterations; ++i) {
    fill_input(collective.in(), one, comm.rank());
    XOE_TRY(comm.barrier());
    const auto start = Clock::now();
    XOE_TRY(collective.run());
    seconds += seconds_since(start);
  }
  return seconds / options.iterations;
}

// The ranks' times as one.
Result<double> combine(Communicator& comm, double seconds, AverageOf average) {
  if (average == AverageOf::kRank0) {
    XOE_TRY(comm.broadcast(Tensor(&seconds, 1), 0));
    return seconds;
  }
  const ReduceOp op = average == AverageOf::kMin   ? ReduceOp::kMin
                      : average == AverageOf::kMax ? ReduceOp::kMax
                                                   : ReduceOp::kAverage;
  XOE_TRY(comm.allreduce(Tensor(&seconds, 1), op));
  return seconds;
}

// Wrong elements over all ranks, of one collective on fresh values.
Result<std::size_t> check(Communicator& comm, BufferedCollective& collective, const CollectiveCase& one) {
  fill_garbage(collective.out(), one.dtype);  // first: in place, the input is a part of it
  fill_input(collective.in(), one, comm.rank());
  XOE_TRY(collective.run());
  auto wrong = static_cast<std::int64_t>(count_wrong(collective.out(), one, comm.rank()));
  XOE_TRY(comm.allreduce(Tensor(&wrong, 1)));
  return static_cast<std::size_t>(wrong);
}

Result<CollectiveTiming> measure(Communicator& comm, const CollectiveCase& one, const MeasureOptions& options,
                                 const Buffer& first, const Buffer& second, bool in_place) {
  BufferedCollective collective(comm, one, first, second, in_place);
  XOE_ASSIGN(const double mine, time(comm, collective, one, options));
  XOE_ASSIGN(const double seconds, combine(comm, mine, options.average));
  CollectiveTiming timing{.us = seconds * 1e6, .wrong = {}};
  if (options.check) {
    XOE_ASSIGN(timing.wrong, check(comm, collective, one));
  }
  return timing;
}

}  // namespace

Result<CollectiveRow> measure_collective(Communicator& comm, const CollectiveCase& one, const MeasureOptions& options) {
  XOE_ASSIGN(const Buffer first, Buffer::allocate(comm, options.memory, one.bytes()));
  XOE_ASSIGN(const Buffer second, Buffer::allocate(comm, options.memory, one.bytes()));
  CollectiveRow row{.one = one};
  if (has_out_of_place(one.kind)) {
    XOE_ASSIGN(row.out_of_place, measure(comm, one, options, first, second, false));
  }
  if (has_in_place(one.kind)) {
    XOE_ASSIGN(row.in_place, measure(comm, one, options, first, second, true));
  }
  return row;
}

}  // namespace xoe::bench
