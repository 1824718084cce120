// Collectives over an MPI communicator. MPI moves bytes and Xoe reduces them, in the order of ranks: the bits are those
// that shared memory gives, in every type, and there is no limit on counts.
//
// MPI takes no collective back once it is started. So it never sees the caller's buffers but memory of the net,
// which is left to it for good when a call is given up.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "backend/mpi/process.h"
#include "backend/net/net.h"
#include "backend/net/shards.h"

namespace xoe::mpi {

using net::Clock;

class MpiNet final : public net::Net {
 public:
  // Takes the communicator, which returns errors.
  MpiNet(std::shared_ptr<Process> process, net::Members members, MPI_Comm comm);
  ~MpiNet() override;

  std::string_view name() const noexcept override { return "mpi"; }
  Status supports(const Collective& collective) const override;
  Status run(const Collective& collective, Clock::time_point deadline) override;
  void abort() noexcept override { aborted_.store(true, std::memory_order_relaxed); }

 private:
  // What MPI works on in one round; two take turns.
  struct Stage {
    std::unique_ptr<std::byte[]> send, receive;                                 // a segment for each member
    std::size_t bytes = 0;                                                      // of each
    std::vector<int> send_counts, send_places, receive_counts, receive_places;  // bytes
    MPI_Request request = MPI_REQUEST_NULL;
  };

  Status dispatch(const Collective& c);
  Status allreduce_at_once(const Collective& c);
  Status reduce_shards(const Collective& c, bool gather);
  Status post_exchange(const Collective& c, std::size_t round);
  Status finish_exchange(const Collective& c, std::size_t round, bool gather);
  Status post_gather(std::size_t round);
  Status finish_gather(std::byte* out, std::size_t round);
  Status broadcast(const Collective& c);
  Status allgather(const Collective& c);
  Status alltoall(const Collective& c);
  Status alltoall_round(const Collective& c, std::size_t round, std::size_t segment);

  // Starts something with the stage's request; waits for it.
  template <class F>
  Status start(F&& function);
  Status finish(MPI_Request& request);

  Stage& stage(std::size_t round) noexcept { return (*stages_)[round % 2]; }
  Stage& ready_stage(std::size_t round, std::size_t bytes);
  std::size_t segment() const noexcept;  // elements

  const std::shared_ptr<Process> process_;
  const net::Members members_;
  const int self_, size_;
  const MPI_Comm comm_;
  std::atomic<bool> aborted_{false};
  std::optional<Error> cause_;

  // Of the collective under way.
  Clock::time_point started_, deadline_;
  std::size_t width_ = 1;
  net::Shards shards_;
  std::vector<const void*> ins_;
  std::unique_ptr<std::vector<Stage>> stages_;
};

}  // namespace xoe::mpi
