// Named tensors from any thread, in any order: agreed upon between ranks, fused, reduced, and handed back.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/communicator.h"
#include "xoe/memory.h"
#include "xoe/status.h"
#include "xoe/tensor.h"

namespace xoe {

// What is asked for. What ranks must agree on is said with each; the name and the process set always.
enum class OpKind : std::uint8_t {
  kAllreduce,        // shape, dtype, reduction, scales, compression
  kAdasum,           // shape, dtype (float types). Maleki et al., "Scaling Distributed Training with Adaptive
                     // Summation", 2020: applied pairwise along a binary tree over the ranks, each tensor on its own
  kSparseAllreduce,  // two tensors: indices [n] (int64) and values [n, ...]; n may differ
  kAllgather,        // dtype and all dimensions but the first
  kBroadcast,        // shape, dtype, root
  kBroadcastBytes,   // root. Its bytes arrive everywhere; only the root knows how many there are
  kAlltoall,         // dtype and all dimensions but the first; each rank gives its own splits
  kReduceScatter,    // shape, dtype, reduction, scales. Cut along the first dimension; the first ranks get one more
  kBarrier,
  kJoin,
};

std::string_view op_kind_name(OpKind kind) noexcept;  // "allreduce"

// Smaller on the wire: float tensors of kAllreduce with kSum or kAverage.
enum class Compression : std::uint8_t {
  kNone,
  kFloat16,
  kBfloat16,
  kFloat8,    // e4m3 with a scale for each block of values
  kTopK,      // the largest values only
  kPowerSgd,  // low-rank factors. Vogels et al., "PowerSGD", 2019
};

std::string_view compression_name(Compression compression) noexcept;  // "bfloat16"

struct CompressionOptions {
  Compression kind = Compression::kNone;
  // What compression dropped is added to the next values of the same name. Always on for kTopK and kPowerSgd.
  bool error_feedback = false;
  double top_k_ratio = 0.01;  // share of the values that kTopK sends
  int power_sgd_rank = 4;     // columns of kPowerSgd's factors

  bool operator==(const CompressionOptions&) const = default;
};

// What an operation does. All ranks of the process set must give the same.
struct OpSpec {
  OpKind kind = OpKind::kAllreduce;
  ReduceOp reduce = ReduceOp::kSum;
  DType dtype = DType::kUint8;  // of the first tensor; submit() sets it
  // The tensors are memory of this process's GPU, the one of its local rank; see Engine::takes_gpu_memory(). For
  // kAllreduce, kBroadcast, kAllgather, kAlltoall and kReduceScatter, without compression, and with prescale and
  // postscale for float32 and float64 only. Results need memory of that GPU, from the caller or from the allocator.
  bool gpu = false;
  int root = 0;            // rank within the process set
  double prescale = 1.0;   // multiplies the input, before the reduction; float types
  double postscale = 1.0;  // multiplies the result
  CompressionOptions compression = {};

  bool operator==(const OpSpec&) const = default;
};

// A dense row-major tensor as an operation sees it. Owns nothing: the memory must stay as it is until the operation has
// completed, and `in` must not be written.
struct TensorArg {
  const void* in = nullptr;
  void* out = nullptr;  // == in: in place (kAllreduce, kAdasum, kBroadcast). Null where the engine or the allocator
                        // provides the memory
  DType dtype = DType::kFloat32;
  std::span<const std::int64_t> shape = {};  // copied at submit; empty: a scalar
};

// Where results of unknown size go: called once for each output, by whichever thread drives the engine, when the shape
// is known. Null fails the operation on this rank with `resource_exhausted`; the peers complete.
using OutputAllocator = std::function<void*(std::size_t index, std::span<const std::int64_t> shape, DType dtype)>;

// Called once, by whichever thread completes the operation, right before its handle turns ready. It may submit, and
// must not wait.
using Callback = std::function<void(const Status&)>;

using ProcessSetId = std::int32_t;
inline constexpr ProcessSetId kWorldSet = 0;

struct Request {
  // The same on all ranks, up to 1024 bytes. Empty: this rank's n-th unnamed operation of this kind in its process set
  // meets the other ranks' n-th.
  std::string_view name = {};
  OpSpec op = {};
  // One tensor, or several that complete together (a group: kAllreduce, kAllgather, kBroadcast, kReduceScatter); none
  // for kBarrier and kJoin.
  std::span<const TensorArg> tensors = {};
  // kAlltoall: rows of the first dimension for each rank of the set; empty: equal parts.
  std::span<const std::int64_t> splits = {};
  ProcessSetId process_set = kWorldSet;
  // For GPU memory: a cudaStream_t; null: the default stream. Work that is in it at the submit is done before tensors
  // are read; once the operation has completed, its results can be used in every stream.
  void* stream = nullptr;
  OutputAllocator allocator = {};
  Callback callback = {};
};

// A result whose memory came from the engine or the allocator.
struct Output {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
};

namespace engine {
class Submission;
class Core;
}  // namespace engine

// A submitted operation. Copies mean the same operation; any thread may use them, also after the engine is gone.
class EngineHandle {
 public:
  EngineHandle() = default;
  explicit EngineHandle(std::shared_ptr<engine::Submission> submission) : submission_(std::move(submission)) {}

  bool valid() const noexcept { return submission_ != nullptr; }
  // Advances the engine; blocks only while a process set is made or removed. True when completed, well or not.
  bool poll();
  // Blocks until completed; the operation's own error if it failed.
  Status wait();
  // `timeout` if it is not completed by then; the operation goes on.
  Status wait_for(std::chrono::nanoseconds patience);

  // After completion.
  // Results whose memory the caller did not give, in the order of the tensors; memory from the engine lives as long as
  // any copy of this handle.
  const std::vector<Output>& outputs() const noexcept;
  // kAlltoall: rows received from each rank of the set. kSparseAllreduce, kAllgather: rows of each rank (of the first
  // tensor).
  const std::vector<std::int64_t>& received_splits() const noexcept;
  // kJoin: the rank (of the world) that joined last.
  int last_joined() const noexcept;

 private:
  std::shared_ptr<engine::Submission> submission_;
};

// What may be chosen. read_engine_options() fills it from the environment.
struct EngineOptions {
  std::size_t fusion_threshold = std::size_t{8} << 20;  // bytes that one fused collective carries at most
  std::size_t pack_limit = std::size_t{1} << 20;        // larger tensors travel on their own, without a copy
  int in_flight = 2;                                    // collectives of a process set under way at once, 1 to 8
  int cache_capacity = 8192;                            // names known at once, per process set
  bool tune = true;                                     // refine the three above from what is measured
  std::string tune_file;                                // where tuned values are read from and saved to; empty: nowhere
  // Completes operations for which nobody waits, from a thread that sleeps while there are none.
  bool progress_thread = true;
  std::chrono::nanoseconds stall_warning = std::chrono::seconds(60);  // 0: never
  std::chrono::nanoseconds stall_limit{0};                            // fails the operation; 0: never
  std::string timeline;                                               // path of a trace to write; empty: none
  int metrics_port = -1;  // serves /metrics on this loopback port + local rank; -1: nowhere
  // Receives warnings, one line each; any thread. Unset: standard error.
  std::function<void(std::string_view)> warn;
};

// Reads XOE_* and, where they have a meaning here, HOROVOD_* variables (docs/reference/environment.md). `warnings`
// receives a line for each that is set and has none. `invalid_argument` names a malformed one.
Result<EngineOptions> read_engine_options(std::vector<std::string>& warnings);

// Takes named operations from any thread and runs them on all ranks in an order that the ranks agree on.
//
// Agreement: an operation starts once every rank of its process set has submitted its name. Ranks may submit in any
// order. Differing arguments fail that operation, on every rank with the same message (`invalid_argument`, with every
// rank's values), and nothing else. Names repeat from step to step; one name cannot be submitted again before it has
// completed (`invalid_argument`).
//
// Progress: whoever submits, polls or waits drives the engine; the progress thread does when nobody else is there.
//
// Failures: a lost rank fails every pending and later operation of its process sets with `peer_lost`. A destroyed
// engine fails what is pending with `unavailable`, and what its peers still wait for with `peer_lost`. In a process
// forked after create() every call gives `unavailable`.
//
// Thread safety: all members may be called by any thread at any time, create and the destructor apart.
class Engine {
 public:
  // Collective. Takes over the communicator, which becomes the world process set.
  static Result<std::unique_ptr<Engine>> create(Communicator world, EngineOptions options = {});
  ~Engine();

  // Lock-free. Errors that concern this call alone come from here; all else completes the handle.
  Result<EngineHandle> submit(const Request& request);
  // submit() and wait(), without waking the progress thread.
  Status run(const Request& request);

  // Ok: this process has a GPU and NCCL, and may submit GPU memory. Else `unsupported`, with the reason. All ranks must
  // submit it for the same names.
  Status takes_gpu_memory() const;

  const Topology& topology() const noexcept;

  // `bytes` of memory that all local ranks map; not collective. Tensors in it are reduced where they stand.
  Result<SharedBuffer> shared_buffer(std::size_t bytes);

  // Process sets. add and remove are collective over the world and ordered like any operation; ranks are those of the
  // world, in any order, and get their set ranks by it. Adding the same ranks again gives another set.
  Result<ProcessSetId> add_process_set(std::span<const int> ranks);
  Status remove_process_set(ProcessSetId set);
  // `invalid_argument` for a set that is not there.
  Result<std::vector<int>> process_set_ranks(ProcessSetId set) const;  // world ranks by set rank
  Result<int> process_set_rank(ProcessSetId set) const;                // this rank's; `invalid_argument`: not in it
  std::vector<ProcessSetId> process_sets() const;

  // Writes events into a trace from here on, in place of an older file. Collective over the world, with one path; each
  // of several hosts writes a file of its own, with the host's name for "{host}" in the path, or before its ending.
  // stop_timeline() is for each rank to call when it likes.
  Status start_timeline(const std::string& path);
  Status stop_timeline();
  // Marks of the caller in the trace, such as "forward": a bar on the lane "compute" or "input".
  void mark(std::string_view lane, std::string_view name, std::chrono::steady_clock::time_point start,
            std::chrono::steady_clock::time_point stop);

  // Prometheus text format 0.0.4.
  std::string metrics() const;

 private:
  explicit Engine(std::shared_ptr<engine::Core> core);
  std::shared_ptr<engine::Core> core_;
};

}  // namespace xoe
