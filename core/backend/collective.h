// One collective as data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/collective.h"
#include "xoe/status.h"
#include "xoe/tensor.h"

namespace xoe {

// Ranks and hosts as indices of tables.
constexpr std::size_t index(int rank) noexcept { return static_cast<std::size_t>(rank); }

enum class CollectiveKind : std::uint8_t { kAllreduce, kBroadcast, kAllgather, kReduceScatter, kAlltoall, kBarrier };

std::string_view collective_name(CollectiveKind kind) noexcept;  // "allreduce"
constexpr bool is_reduction(CollectiveKind kind) noexcept {
  return kind == CollectiveKind::kAllreduce || kind == CollectiveKind::kReduceScatter;
}

// Hears that all work of a collective on GPU memory is in the GPU's queue: work behind `event` (a cudaEvent_t) finds
// the result. The thread that runs the collective calls it.
class LaunchListener {
 public:
  virtual void launched(std::shared_ptr<const void> event) noexcept = 0;

 protected:
  ~LaunchListener() = default;
};

// The Communicator has checked everything that one rank can check alone: pointers are non-null where counts are not 0,
// counts add up, the root exists, op suits dtype. Spans and pointers refer to the caller's memory.
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
  // `in` and `out` are memory of this rank's GPU, which only nccl supports. stream: the producer's CUDA stream, nullptr
  // for the default one. `in` is read after the work that is in the stream now, and the result is ready on the stream
  // when the call returns.
  bool device = false;
  void* stream = nullptr;
  // by_marks: `stream` is ignored; instead `in` is read after the work before the marks `after` (from
  // Provider::admit()), and the result is ready for every stream when the call returns. Null memory for elements is
  // allowed then: a null `in` contributes the neutral element, and the result for a null `out` is dropped.
  bool by_marks = false;
  std::span<const void* const> after = {};
  LaunchListener* listener = nullptr;
  double prescale = 1;  // sum and average of floats in GPU memory: multiplies each rank's `in`
};

// The arguments of an allreduce in their shortest form.
struct ReduceCall {
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  DType dtype = DType::kUint8;
  ReduceOp op = ReduceOp::kSum;
};

// Collectives on host memory. They refer to the caller's tables and name.
Collective make_allreduce(ConstTensor in, Tensor out, ReduceOp op, const OpOptions& options = {});
Collective make_broadcast(Tensor data, int root, const OpOptions& options = {});
Collective make_allgather(ConstTensor in, Tensor out, std::span<const std::size_t> counts,
                          const OpOptions& options = {});
Collective make_reduce_scatter(ConstTensor in, Tensor out, std::span<const std::size_t> counts, ReduceOp op,
                               const OpOptions& options = {});
Collective make_alltoall(ConstTensor in, std::span<const std::size_t> send_counts, Tensor out,
                         std::span<const std::size_t> recv_counts, const OpOptions& options = {});

// "allreduce #17 (conv1.weight)"; without a number for 0, without a name if it has none.
std::string title_of(const Collective& collective, std::uint64_t number = 0);

// For backends that work in host memory: `unsupported`, naming the alternative, for collectives that only nccl supports
// and for reductions that do not suit the element type.
Status check_host_memory(const Collective& collective, std::string_view backend);

// A Collective with copies of the tables, segments and name that its caller may free.
class OwnedCollective {
 public:
  OwnedCollective() = default;
  OwnedCollective(const OwnedCollective&) = delete;
  OwnedCollective& operator=(const OwnedCollective&) = delete;

  void assign(const Collective& collective);  // reuses its memory
  const Collective* operator->() const noexcept { return &collective_; }
  const Collective& operator*() const noexcept { return collective_; }

 private:
  Collective collective_;
  std::vector<std::size_t> send_counts_, recv_counts_;
  std::vector<Segment> segments_;
  std::string name_;
};

}  // namespace xoe
