// A group of ranks and the collectives among them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "xoe/collective.h"
#include "xoe/memory.h"
#include "xoe/status.h"
#include "xoe/tensor.h"

namespace xoe {

class Backend;      // core/backend/backend.h
struct Collective;  // core/backend/collective.h
struct ReduceCall;  // core/backend/collective.h

// The result of an allgather whose counts the ranks did not know beforehand.
struct Gathered {
  std::vector<std::byte> data;      // all contributions, by rank
  std::vector<std::size_t> counts;  // elements per rank
};

// Ranks that run collectives together. Every rank must start the same collectives in the same order.
//
// Thread safety: one thread at a time per communicator (its handles included); different communicators
// are independent. Moving is allowed while no operation is pending.
//
// Errors: arguments that are wrong by themselves (null data, bad root, counts that do not add up) give
// `invalid_argument` at once, involve no peer, and leave the communicator usable. Every other failure ends it:
// arguments that differ between ranks (`invalid_argument` with both sides' values), a rank that died (`peer_lost`,
// within a second), a missed deadline (`timeout`). Then every pending and later operation on every rank returns that
// first cause, and the contents of output buffers are undefined; no peer touches them any more.
//
// Error messages name ranks by their numbers in the job, also in a group made by split().
//
// Reductions give the same bits on every rank, and in every run with the same placement of the ranks on hosts: the
// ranks of each host are combined in rank order, then the hosts in the order of their first ranks; float16 and bfloat16
// in float32 with one rounding at the end. XOE_DETERMINISTIC=placement-free combines all ranks in rank order, so that
// any placement gives the bits of one host. The backend nccl promises the same bits on every rank only.
//
// Any count is allowed, 0 too. `in` and `out` are the same memory (in place) or do not overlap.
class Communicator {
 public:
  explicit Communicator(std::unique_ptr<Backend> backend);
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  // Tells the peers that this rank has left; their later operations fail with `peer_lost`. Does not wait.
  ~Communicator();

  int rank() const noexcept { return topology().rank; }
  int size() const noexcept { return topology().size; }
  int local_rank() const noexcept { return topology().local_rank; }
  int local_size() const noexcept { return topology().local_size; }
  int cross_rank() const noexcept { return topology().cross_rank; }
  int cross_size() const noexcept { return topology().cross_size; }
  const Topology& topology() const noexcept;
  std::string_view backend_name() const noexcept;  // "shm"

  // out[i] = op over all ranks' in[i]. Count, dtype and op are the same on all ranks.
  Status allreduce(ConstTensor in, Tensor out, ReduceOp op = ReduceOp::kSum, OpOptions options = {});
  Status allreduce(Tensor inout, ReduceOp op = ReduceOp::kSum, OpOptions options = {});
  Result<Handle> start_allreduce(ConstTensor in, Tensor out, ReduceOp op = ReduceOp::kSum, OpOptions options = {});

  // Reduces several arrays as if they lay one after the other, without packing them. Only the sum of the counts must
  // be the same on all ranks; a rank may also pass one array of that count. The list is copied.
  Result<Handle> start_allreduce(std::span<const Segment> segments, DType dtype, ReduceOp op = ReduceOp::kSum,
                                 OpOptions options = {});

  // `data` of `root` arrives in `data` of all ranks. The root may write a part of it there: the others wait for its
  // calls.
  Status broadcast(Tensor data, int root, OpOptions options = {});
  Result<Handle> start_broadcast(Tensor data, int root, OpOptions options = {});

  // Concatenates the inputs in rank order. counts[r] is the number of elements of rank r (in.count == counts[rank()]);
  // the table is the same on all ranks; out.count == sum of counts. In place: in.data points at this rank's part of
  // out.
  Status allgather(ConstTensor in, Tensor out, std::span<const std::size_t> counts, OpOptions options = {});
  Status allgather(ConstTensor in, Tensor out, OpOptions options = {});  // equal counts
  // The counts may differ between ranks; they are exchanged first.
  Result<Gathered> allgather(ConstTensor in, OpOptions options = {});
  Result<Handle> start_allgather(ConstTensor in, Tensor out, std::span<const std::size_t> counts,
                                 OpOptions options = {});

  // Rank r receives the reduction of elements [sum(counts[0..r)), +counts[r]) in `out`.
  // The table is the same on all ranks; in.count == sum of counts; out.count == counts[rank()].
  // In place: out.data points at this rank's part of `in`.
  Status reduce_scatter(ConstTensor in, Tensor out, std::span<const std::size_t> counts, ReduceOp op = ReduceOp::kSum,
                        OpOptions options = {});
  Result<Handle> start_reduce_scatter(ConstTensor in, Tensor out, std::span<const std::size_t> counts,
                                      ReduceOp op = ReduceOp::kSum, OpOptions options = {});

  // Sends send_counts[r] elements of `in` to rank r and receives recv_counts[r] from it, both in rank order. Not in
  // place. recv_counts[r] must equal the count that rank r sends here; alltoall_counts() asks the ranks for it.
  Status alltoall(ConstTensor in, std::span<const std::size_t> send_counts, Tensor out,
                  std::span<const std::size_t> recv_counts, OpOptions options = {});
  Result<Handle> start_alltoall(ConstTensor in, std::span<const std::size_t> send_counts, Tensor out,
                                std::span<const std::size_t> recv_counts, OpOptions options = {});
  Result<std::vector<std::size_t>> alltoall_counts(std::span<const std::size_t> send_counts, OpOptions options = {});

  // Returns once all ranks have called it.
  Status barrier(OpOptions options = {});

  // Advances pending collectives without blocking.
  Status progress();

  // Makes a group of the ranks that pass the same `color`, ordered by (key, rank). A rank that passes a negative color
  // joins no group and gets nullopt. Collective over this communicator.
  Result<std::optional<Communicator>> split(int color, int key = 0);

  // Allocates memory that all local ranks map. Not collective. See SharedBuffer.
  Result<SharedBuffer> shared_buffer(std::size_t bytes);

  // The addresses in this process of the buffers that the ranks pass, by rank, this rank's own included. Collective;
  // all buffers must have the same size. An address is valid for as long as that rank keeps its buffer.
  Result<std::vector<std::byte*>> map_peers(const SharedBuffer& mine, OpOptions options = {});

  // For Xoe's own layers above this one.
  Backend& backend() const noexcept { return *backend_; }
  Result<Handle> start(const Collective& collective);

 private:
  Status run(const Collective& collective);
  // False: run() takes the call.
  bool run_small(const ReduceCall& call, const OpOptions& options, Status& status);

  std::unique_ptr<Backend> backend_;
};

struct InitOptions {
  std::chrono::nanoseconds start_timeout = std::chrono::seconds(60);  // until all ranks must have appeared
  // Receives warnings about late ranks, one line each; any thread. Unset: standard error.
  std::function<void(std::string_view)> warn = {};
};

// Joins the group that the launcher's environment variables describe: XOE_* (see docs/reference/environment.md), else
// those of Open MPI, MPICH (PMI), Slurm or torchrun. Without any of them, makes a group of one.
Result<Communicator> init(const InitOptions& options = {});

}  // namespace xoe
