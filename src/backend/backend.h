// What an engine that moves bytes between ranks must offer.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

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
  OpOptions options = {};
};

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
};

}  // namespace xoe
