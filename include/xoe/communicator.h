// A group of ranks and the collectives among them.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/memory.h"
#include "xoe/status.h"
#include "xoe/tensor.h"

namespace xoe {

class Backend;      // src/backend/backend.h
struct Collective;  // likewise

// Where a process stands. `local` counts the ranks on its host, `cross` the hosts that have a rank
// with the same local rank.
struct Topology {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;
  int cross_size = 1;
};

// Applies to one operation.
struct OpOptions {
  // Appears in errors: `allreduce #17 (conv1.weight): ...`. The same on all ranks: different names are a mismatch.
  std::string_view name = {};
  // How long to wait for peers, from the first wait() or test(); unset: the communicator's default (XOE_TIMEOUT, 30
  // minutes).
  std::optional<std::chrono::nanoseconds> timeout = {};
};

// A collective that was started and not yet waited for. No thread works behind it: it advances when
// somebody calls test() or wait() on any handle of its communicator, or starts or runs a collective there. The
// buffers stay in use until it is done. Same thread rule as its communicator. Dropping a handle that is not
// done leaves the collective in place; the communicator finishes it on its next call.
class Handle {
 public:
  // What a backend gives for each started collective.
  class Work {
   public:
    virtual ~Work() = default;
    virtual Result<bool> test() = 0;  // true: done
    virtual Status wait() = 0;
  };

  Handle() = default;
  explicit Handle(std::shared_ptr<Work> work) : work_(std::move(work)) {}

  bool valid() const noexcept { return work_ != nullptr; }
  // Advances without blocking. True when done, false when peers are still to come.
  Result<bool> test() { return work_->test(); }
  // Blocks until done, failed, or past the operation's timeout.
  Status wait() { return work_->wait(); }

 private:
  std::shared_ptr<Work> work_;
};

// Result of an allgather whose counts were not known before.
struct Gathered {
  std::vector<std::byte> data;      // all contributions, by rank
  std::vector<std::size_t> counts;  // elements per rank
};

// One of several arrays that are reduced as one. in == out: in place.
struct Segment {
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;  // elements
};

// Ranks that run collectives together. Every rank must start the same collectives in the same order.
//
// Thread safety: one thread at a time per communicator (its handles included); different communicators
// are independent. Moving is allowed while no operation is pending.
//
// Errors: arguments that are wrong on their own (null data, bad root, counts that do not add up) give
// `invalid_argument` at once, touch nobody, and leave the communicator usable. All else ends it: arguments that differ
// between ranks (`invalid_argument` with both sides' values), a rank that died (`peer_lost`, within a second), a
// deadline
// (`timeout`). Then every pending and later operation on every rank returns that first cause, and the
// contents of output buffers are undefined; no peer touches them any more.
//
// Errors call ranks by their numbers in the job, also those of a group from split().
//
// Reductions give the same bits on every rank and on every run: ranks are combined in rank order, float16
// and bfloat16 in float32 with one rounding at the end.
//
// Any count is allowed, 0 too. `in` and `out` are the same memory (in place) or do not overlap.
class Communicator {
 public:
  explicit Communicator(std::unique_ptr<Backend> backend);
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  // Tells the peers that this rank left; their later operations fail with `peer_lost`. Does not wait.
  ~Communicator();

  int rank() const noexcept;
  int size() const noexcept;
  int local_rank() const noexcept;
  int local_size() const noexcept;
  int cross_rank() const noexcept;
  int cross_size() const noexcept;
  const Topology& topology() const noexcept;
  std::string_view backend_name() const noexcept;  // "shm"

  // out[i] = op over ranks of in[i]; same count, dtype and op on all ranks.
  Status allreduce(ConstTensor in, Tensor out, ReduceOp op = ReduceOp::kSum, OpOptions options = {});
  Status allreduce(Tensor inout, ReduceOp op = ReduceOp::kSum, OpOptions options = {});
  Result<Handle> start_allreduce(ConstTensor in, Tensor out, ReduceOp op = ReduceOp::kSum, OpOptions options = {});

  // The same for several arrays as if they lay one after the other: nobody has to pack them. Only the sum of the
  // counts must be the same on all ranks, and that of ranks that give one array. The list is copied.
  Result<Handle> start_allreduce(std::span<const Segment> segments, DType dtype, ReduceOp op = ReduceOp::kSum,
                                 OpOptions options = {});

  // `data` of `root` arrives in `data` of all ranks.
  Status broadcast(Tensor data, int root, OpOptions options = {});
  Result<Handle> start_broadcast(Tensor data, int root, OpOptions options = {});

  // Concatenation by rank. counts[r] is what rank r gives (in.count == counts[rank()]), the same on all ranks;
  // out.count == sum of counts. In place: in.data points at this rank's place in out.
  Status allgather(ConstTensor in, Tensor out, std::span<const std::size_t> counts, OpOptions options = {});
  Status allgather(ConstTensor in, Tensor out, OpOptions options = {});  // equal counts
  // Counts may differ and are exchanged first.
  Result<Gathered> allgather(ConstTensor in, OpOptions options = {});
  Result<Handle> start_allgather(ConstTensor in, Tensor out, std::span<const std::size_t> counts,
                                 OpOptions options = {});

  // Rank r receives the reduction of elements [sum(counts[0..r)), +counts[r]) in `out`.
  // counts are the same on all ranks; in.count == their sum; out.count == counts[rank()].
  // In place: out.data points at this rank's place in `in`.
  Status reduce_scatter(ConstTensor in, Tensor out, std::span<const std::size_t> counts, ReduceOp op = ReduceOp::kSum,
                        OpOptions options = {});
  Result<Handle> start_reduce_scatter(ConstTensor in, Tensor out, std::span<const std::size_t> counts,
                                      ReduceOp op = ReduceOp::kSum, OpOptions options = {});

  // send_counts[r] elements of `in`, by rank, go to rank r; recv_counts[r] arrive from it. Not in place.
  // recv_counts[r] must equal what rank r sends here; alltoall_counts() finds it out.
  Status alltoall(ConstTensor in, std::span<const std::size_t> send_counts, Tensor out,
                  std::span<const std::size_t> recv_counts, OpOptions options = {});
  Result<Handle> start_alltoall(ConstTensor in, std::span<const std::size_t> send_counts, Tensor out,
                                std::span<const std::size_t> recv_counts, OpOptions options = {});
  Result<std::vector<std::size_t>> alltoall_counts(std::span<const std::size_t> send_counts, OpOptions options = {});

  // Returns when all ranks have called it.
  Status barrier(OpOptions options = {});

  // Advances pending collectives as far as they go without blocking.
  Status progress();

  // Groups the ranks by `color` (negative: this rank joins none and gets nullopt), ordered by (key, rank).
  // Collective over this communicator.
  Result<std::optional<Communicator>> split(int color, int key = 0);

  // `bytes` of memory that all local ranks map; not collective. See SharedBuffer.
  Result<SharedBuffer> shared_buffer(std::size_t bytes);

  // Where this process sees the buffer that each rank passes, by rank; this rank's own is included. Collective;
  // all buffers must have the same size. An address is good for as long as that rank keeps its buffer.
  Result<std::vector<std::byte*>> map_peers(const SharedBuffer& mine, OpOptions options = {});

  // For the layers of Xoe above this one.
  Backend& backend() const noexcept { return *backend_; }
  Result<Handle> start(const Collective& collective);

 private:
  Status run(const Collective& collective);

  std::unique_ptr<Backend> backend_;
};

struct InitOptions {
  std::chrono::nanoseconds start_timeout = std::chrono::seconds(60);  // for all ranks to appear
};

// Joins the group that the launcher described in the environment: XOE_* (see docs/reference/environment.md), else
// Open MPI's, MPICH's (PMI), Slurm's or torchrun's variables, else a group of one.
Result<Communicator> init(InitOptions options = {});

}  // namespace xoe
