// Collectives over an MPI communicator. MPI moves bytes and Xoe reduces them in the order of ranks, so that the bits
// equal those of the shared-memory backend in every type, and counts are unlimited.
//
// MPI cannot cancel a collective. So it works on memory of the net, never on the caller's buffers; the net gives that
// memory up when a call fails.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/backend/mpi/context.h"
#include "core/backend/net/net.h"
#include "core/backend/net/shards.h"

namespace xoe::mpi {

using net::Clock;

class MpiNet final : public net::Net {
 public:
  // Takes the communicator, which returns errors.
  MpiNet(std::shared_ptr<Context> context, net::Members members, MPI_Comm comm);
  ~MpiNet() override;

  std::string_view name() const noexcept override { return "mpi"; }
  Status supports(const Collective& collective) const override { return check_host_memory(collective, "mpi"); }
  Status run(const Collective& collective, Clock::time_point deadline) override;
  void abort() noexcept override { aborted_.store(true, std::memory_order_relaxed); }

 private:
  // The buffers of MPI in one round; two take turns.
  struct Staging {
    std::unique_ptr<std::byte[]> send, receive;                                   // a chunk for each member
    std::size_t bytes = 0;                                                        // of each
    std::vector<int> send_counts, send_offsets, receive_counts, receive_offsets;  // bytes
    MPI_Request request = MPI_REQUEST_NULL;
  };

  Status dispatch(const Collective& c);
  Status allreduce_at_once(const Collective& c);
  Status reduce_shards(const Collective& c, bool gather);
  Status post_alltoall(Staging& s);
  Status post_exchange(const Collective& c, std::size_t round);
  Status finish_exchange(const Collective& c, std::size_t round, bool gather);
  Status post_gather(std::size_t round);
  Status finish_gather(std::byte* out, std::size_t round);
  Status broadcast(const Collective& c);
  Status allgather(const Collective& c);
  Status alltoall(const Collective& c);
  Status alltoall_round(const Collective& c, std::size_t round, std::size_t segment);

  // Calls MPI, which begins a request; waits for a request.
  template <class F>
  Status start(F&& function);
  Status finish(MPI_Request& request);

  Staging& staging(std::size_t round) noexcept { return (*stagings_)[round % 2]; }
  Staging& staging_for(std::size_t round, std::size_t bytes);
  std::size_t chunk_size() const noexcept;  // elements

  const std::shared_ptr<Context> context_;
  const net::Members members_;
  const int self_, size_;
  const MPI_Comm comm_;
  std::atomic<bool> aborted_{false};
  std::optional<Error> cause_;

  // State of the current collective.
  Clock::time_point started_, deadline_;
  std::size_t width_ = 1;
  net::Shards shards_;
  std::vector<const void*> ins_;
  std::unique_ptr<std::vector<Staging>> stagings_;
};

}  // namespace xoe::mpi
