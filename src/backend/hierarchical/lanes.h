// Collectives over several hosts, in the caller's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/hierarchical/call.h"
#include "backend/hierarchical/plan.h"
#include "backend/net/net.h"

namespace xoe::hierarchical {

constexpr bool is_integer(DType dtype) noexcept { return dtype <= DType::kInt64; }
constexpr bool is_short_float(DType dtype) noexcept { return dtype == DType::kFloat16 || dtype == DType::kBfloat16; }

// As many ranks of each host as the smallest host has carry data between the hosts, each an equal part and each among
// those with the same place on their hosts, so that a byte crosses the network once for each host and all of a host's
// queues are used. The others take part on their host only.
class Lanes {
 public:
  // Makes a net of some ranks of the group.
  using Connect =
      std::function<Result<std::unique_ptr<net::Net>>(const std::vector<int>& ranks, std::string_view what)>;

  // local: of this host's ranks, in the order of their ranks. flat: no use is made of it.
  Lanes(const Placement& placement, Backend& local, bool flat, Connect connect);

  // Collective: connects the nets that every group needs.
  Status connect();
  // REQUIRES: flat.
  Status supports(const Collective& collective) const { return everybody_->supports(collective); }
  Status run(const Collective& collective, std::uint64_t number, net::Clock::time_point deadline);
  // Any thread.
  void abort() noexcept;
  std::string_view net_name() const noexcept { return net_name_; }

 private:
  // What one rank carries between hosts.
  struct Part {
    DType dtype;
    ReduceOp op;
    std::size_t count;
  };
  // What each lane carries of each host's block, the elements of its ranks.
  struct Parts {
    std::vector<std::size_t> blocks;                // by host
    std::vector<std::vector<std::size_t>> by_lane;  // by host, of its block by local rank
    std::vector<std::size_t> own_lane;              // by host, of its block in this rank's lane
  };

  bool leads() const { return placement_.local_rank() == 0; }
  Status allreduce(const Call& call);
  Status allreduce_lanes(const Call& call, const void* in, void* out, DType dtype, std::size_t count, ReduceOp op);
  Status packed(const Call& call, Status (Lanes::*body)(const Call&));
  void average_floats(const Collective& c) const;
  Status integer_average(const Call& call, const void* in, void* out);
  Status short_average(const Call& call, const void* in, void* out);
  Status across(const Call& call, const Part& part, void* data);
  Status across_small(const Call& call, const Part& part, void* data);
  Status broadcast(const Call& call);
  Status allgather(const Call& call);
  Status gather_block(const Call& call, std::byte* block);
  Status allgather_parts(const Call& call);
  Status reduce_scatter(const Call& call);
  Status reduce_and_keep(const Call& call);
  Status reduce_scatter_parts(const Call& call, ReduceOp op);
  Status exchange_parts(const Call& call, const std::byte* part, const std::vector<std::size_t>& by_lane);
  Parts parts_of(const Collective& c) const;
  const std::byte* in_blocks(const Collective& c, std::vector<std::byte>& memory) const;
  bool even() const;
  Status alltoall(const Call& call);
  Status barrier(const Call& call);
  Status run_flat(const Call& call);

  Status local(const Call& call, Collective collective);
  Status on(net::Net& net, const Call& call, Collective collective);
  // All members of the net must be about to do the same; `data`, kInline bytes at most, is told to all.
  Result<std::vector<Greeting>> agree(net::Net& net, std::size_t members, const Call& call,
                                      std::span<const std::byte> data = {});
  Result<std::vector<Greeting>> agree_in_lane(const Call& call, std::span<const std::byte> data = {});
  Result<std::vector<Greeting>> agree_with_all(net::Net& net, const Call& call);
  Result<std::byte*> scratch(std::size_t bytes);
  Result<net::Net*> everybody();
  void keep(std::unique_ptr<net::Net>& place, std::unique_ptr<net::Net> net);

  Placement placement_;
  Backend& local_;
  bool flat_;
  Connect connect_;
  std::string net_name_;
  SharedBuffer scratch_;
  std::mutex nets_mutex_;  // of the pointers; abort() comes from another thread
  bool aborted_ = false;
  std::unique_ptr<net::Net> lane_;
  std::unique_ptr<net::Net> everybody_;
};

}  // namespace xoe::hierarchical
