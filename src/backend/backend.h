// What an engine that moves bytes between ranks must offer.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backend/host_link.h"
#include "xoe/communicator.h"
#include "xoe/memory.h"
#include "xoe/status.h"
#include "xoe/tensor.h"

namespace xoe {

enum class CollectiveKind : std::uint8_t { kAllreduce, kBroadcast, kAllgather, kReduceScatter, kAlltoall, kBarrier };

std::string_view collective_name(CollectiveKind kind) noexcept;  // "allreduce"

// One collective as data. The Communicator has checked whatever can be checked on one rank alone: pointers
// are non-null where counts are not 0, counts add up, root exists, op suits dtype.
struct Collective {
  CollectiveKind kind = CollectiveKind::kBarrier;
  DType dtype = DType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t in_count = 0;                       // elements in `in`
  std::size_t out_count = 0;                      // elements in `out`
  std::span<const std::size_t> send_counts = {};  // alltoall: by destination. allgather, reduce-scatter: by rank
  std::span<const std::size_t> recv_counts = {};  // alltoall: by source
  std::span<const Segment> segments = {};         // allreduce: instead of `in` and `out`; the counts are their sum
  OpOptions options = {};
  // `in` and `out` are memory of this rank's GPU, which only nccl takes. stream: the producer's CUDA stream, nullptr
  // for the default one. What is in it is done before `in` is read, and the result is ready on it when the call
  // returns.
  bool device = false;
  void* stream = nullptr;
  // by_marks: `stream` is not looked at, but what was before the marks (from Provider::admit()) is done before `in` is
  // read; when the call returns, the result is there for every stream. Null memory for elements is allowed then: a null
  // `in` gives what changes nothing, and what belongs to a null `out` is dropped.
  bool by_marks = false;
  std::span<const void* const> after = {};
  double prescale = 1;  // sum and average of floats in GPU memory: each rank's `in` counts so many times
};

// Backends for host memory alone: `unsupported`, saying where else to turn, for anything that only nccl takes.
Status check_host_memory(const Collective& collective, std::string_view backend);

// A group of ranks on one engine. Same thread rule and same failure rule as Communicator, which wraps it.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const noexcept = 0;
  virtual const Topology& topology() const noexcept = 0;
  // Ok, or `unsupported` with the reason and what to do instead.
  virtual Status supports(const Collective& collective) const = 0;

  virtual Status run(const Collective& collective) = 0;
  virtual Result<std::shared_ptr<Handle::Work>> start(const Collective& collective) = 0;
  virtual Status progress() = 0;

  // nullptr for the ranks of a negative color.
  virtual Result<std::unique_ptr<Backend>> split(int color, int key) = 0;
  virtual Result<SharedBuffer> shared_buffer(std::size_t bytes) = 0;
  virtual Result<std::vector<std::byte*>> map_peers(const SharedBuffer& mine, const OpOptions& options) = 0;

  // What the engine needs besides collectives.
  // The host of each rank, numbered from 0 by the first rank on it.
  virtual const std::vector<int>& hosts() const noexcept = 0;
  // Memory that the group's ranks of a host share, zero at first; it lasts as long as the backends of any of them.
  // Collective.
  virtual Result<std::byte*> host_memory(std::size_t bytes) = 0;
  // Among the hosts' leaders, the first rank on each. Collective; nullptr on ranks that lead no host.
  virtual Result<std::unique_ptr<HostLink>> host_link() = 0;
  // Wakes the ranks of this host that sleep, this one's other threads too: call it after publishing in host_memory().
  // Any thread.
  virtual void wake() const noexcept = 0;
  // Sleeps until woken, until a collective of any group of this rank may go on, or until `until`. `ready` is asked once
  // when this rank counts as asleep already; if true, returns at once. Any thread.
  virtual void sleep(const std::function<bool()>& ready, std::chrono::steady_clock::time_point until) const = 0;
  // Ends the group with this cause, on all ranks: here at the next progress(). Any thread.
  virtual void abort(Error cause) = 0;
  // Ranks that have left the group: they take part in nothing new.
  virtual std::vector<int> departed() const = 0;
  // More ranks than processors: who waits should yield instead of spin.
  virtual bool oversubscribed() const noexcept = 0;
};

}  // namespace xoe
