// Takes named tensors from any thread, in any order; agrees on an order with all ranks, fuses and reduces them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/communicator.h"
#include "xoe/memory.h"
#include "xoe/status.h"
#include "xoe/tensor.h"

namespace xoe {

// The kinds of operations, each with the arguments that must be the same on all ranks, besides name and process set.
enum class OpKind : std::uint8_t {
  kAllreduce,        // shape, dtype, reduction, scales, compression
  kAdasum,           // shape, dtype (float types). Maleki et al., "Scaling Distributed Training with Adaptive
                     // Summation", 2020: applied pairwise along a binary tree over the ranks, each tensor on its own
  kSparseAllreduce,  // dense_shape; two tensors: indices [n] (int64) and values [n, ...], n may differ
  kAllgather,        // dtype and all dimensions but the first
  kBroadcast,        // shape, dtype, root
  kBroadcastBytes,   // root. All ranks receive its bytes; only the root knows their number
  kAlltoall,         // dtype and all dimensions but the first; each rank gives its own splits
  kReduceScatter,    // shape, dtype, reduction, scales. Cut along the first dimension; the first ranks get one row more
  kBarrier,
  kJoin,
};

std::string_view op_kind_name(OpKind kind) noexcept;  // "allreduce"

// Compression on the wire, for float tensors of kAllreduce with kSum or kAverage.
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
  // Adds the values that compression dropped to the next ones of the same name. Always on for kTopK and kPowerSgd.
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
  // kAllreduce, kBroadcast, kAllgather, kAlltoall and kReduceScatter, without compression: by NCCL, or staged through
  // pinned host memory. Results need memory of that GPU, from the caller or from the allocator.
  bool gpu = false;
  int root = 0;            // rank within the process set
  double prescale = 1.0;   // multiplies the input, before the reduction; float types
  double postscale = 1.0;  // multiplies the result
  CompressionOptions compression = {};
  bool needs_all_ranks = false;  // fails on every rank, instead of running without the ranks that have joined

  bool operator==(const OpSpec&) const = default;
};

// A dense row-major tensor. Owns nothing: the memory must stay in place until the operation has completed, and `in`
// must not be written meanwhile.
struct TensorArg {
  const void* in = nullptr;
  // == in: in place (kAllreduce, kAdasum, kBroadcast); in place for kReduceScatter is this rank's part of `in`. Null
  // where the engine or the allocator provides the memory.
  void* out = nullptr;
  DType dtype = DType::kFloat32;
  std::span<const std::int64_t> shape = {};  // copied at submit; empty: a scalar
};

// Provides memory for results of unknown size: called once for each output when its shape is known, by any thread that
// makes progress. Null fails the operation on this rank with `resource_exhausted`; the peers complete.
using OutputAllocator = std::function<void*(std::size_t index, std::span<const std::int64_t> shape, DType dtype)>;

// Called once, right before the handle turns ready, by the thread that completes the operation. It may submit, but must
// not wait. Without EngineOptions::progress_thread it comes only while this rank submits, polls or waits for an
// operation, that one or another; a program that does none of these gets none.
using Callback = std::function<void(const Status&)>;

using ProcessSetId = std::int32_t;
inline constexpr ProcessSetId kWorldSet = 0;

struct Request {
  // The same on all ranks, up to 1024 bytes. Empty: this rank's n-th unnamed operation of this kind in the process set
  // is matched with the other ranks' n-th.
  std::string_view name = {};
  // Where this rank has the name in flight, that is no error: this operation follows once that one has completed. All
  // ranks submit the operations of such a name in one order. Implied without a name.
  bool queue_same_name = false;
  OpSpec op = {};
  // One tensor, or several that complete together (a group: kAllreduce, kAllgather, kBroadcast, kReduceScatter); none
  // for kBarrier and kJoin.
  std::span<const TensorArg> tensors = {};
  // kAlltoall: rows of the first dimension for each rank of the set; empty: equal parts.
  std::span<const std::int64_t> splits = {};
  // kSparseAllreduce: the shape of the whole tensor, for ranks to compare; empty: unknown.
  std::span<const std::int64_t> dense_shape = {};
  ProcessSetId process_set = kWorldSet;
  // How long it waits for ranks that have not submitted it; then the process set fails. 0: EngineOptions::stall_limit.
  std::chrono::nanoseconds timeout{0};
  // For GPU memory: a cudaStream_t; null: the default stream. Work that is in it at the submit is done before tensors
  // are read; once the operation has completed, its results can be used in every stream.
  void* stream = nullptr;
  OutputAllocator allocator = {};
  Callback callback = {};
  // What else ranks must agree on, for messages: "without conv1.weight". Empty: nothing.
  std::string_view detail = {};
  // The owner of the tensors' memory: lives until the operation has completed.
  std::shared_ptr<const void> memory = {};
};

// A result in memory of the engine or the allocator.
struct Output {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
};

namespace engine {
class Submission;
class Runtime;
}  // namespace engine

// A submitted operation. Copies refer to the same operation. Any thread may use it, also after the engine was
// destroyed.
class EngineHandle {
 public:
  EngineHandle() = default;
  explicit EngineHandle(std::shared_ptr<engine::Submission> submission) : submission_(std::move(submission)) {}

  bool valid() const noexcept { return submission_ != nullptr; }
  // Makes progress on the engine; blocks only while a process set is made or removed. True: completed or failed.
  bool poll();
  // Blocks until completed; returns the operation's error if it failed.
  Status wait();
  // `timeout`: not completed within `timeout`; the operation goes on.
  Status wait_for(std::chrono::nanoseconds timeout);
  // GPU memory, with XOE_GPU_WAIT=stream and NCCL: returns once the operation's work is in the GPU's queue, and later
  // work in `stream` (a cudaStream_t) waits for the result; if the operation fails after that, the next one has its
  // error. In all other cases as wait_for(). Call it for each stream that uses the result.
  Status wait_in_stream(void* stream, std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max());

  // After completion:
  // Results for which the caller gave no memory, in the order of the tensors. Memory of the engine lives as long as any
  // copy of this handle.
  const std::vector<Output>& outputs() const noexcept;
  // kAlltoall: rows received from each rank of the set. kSparseAllreduce, kAllgather: rows of each rank (of the first
  // tensor).
  const std::vector<std::int64_t>& received_splits() const noexcept;
  // kJoin: the rank (of the world) that joined last.
  int last_joined() const noexcept;

 private:
  std::shared_ptr<engine::Submission> submission_;
};

// read_engine_options() fills it from the environment.
struct EngineOptions {
  std::size_t fusion_threshold = std::size_t{8} << 20;  // most bytes of a fused collective
  std::size_t pack_limit = std::size_t{1} << 20;        // larger tensors are not fused, and not copied
  int in_flight = 2;                                    // collectives of a process set under way at once, 1 to 8
  // Names known at once, per process set. More operations than that may be in flight; the first time takes longer.
  int cache_capacity = 8192;
  // Bytes of error feedback and factors that compression keeps, per process set, for names that it cannot tell to be in
  // use: names used once so far, and names not used for long. Names in use always keep theirs.
  std::size_t codec_state = std::size_t{512} << 20;
  bool tune = true;            // tune the three above while the engine runs
  std::string tune_file = {};  // tuned values are read from and saved to it; empty: none
  // Completes operations that no thread waits for, in a thread that sleeps while there are none. False: they complete,
  // and their callbacks come, only while a thread of this rank submits, polls or waits.
  bool progress_thread = true;
  // An operation that some ranks have not submitted is reported after this time, and again after pauses that double; 0:
  // never.
  std::chrono::nanoseconds stall_warning = std::chrono::seconds(10);
  std::chrono::nanoseconds stall_limit = std::chrono::minutes(10);  // after it the operation fails; 0: never
  bool stall_spares_computing = true;                               // but not while a rank that is missing computes
  std::string timeline = {};                                        // a trace to write; rank 0's counts; empty: none
  // Bytes of a bucket of gradients; 0: gradients are reduced one by one. Set rank 0's counts.
  std::size_t bucket_bytes = std::size_t{25} << 20;
  // Ranges for Nsight Systems and other profilers that read NVTX: unset: while one is attached; true: and a warning
  // where none is; false: never. They begin with the engine.
  std::optional<bool> nvtx = {};
  int metrics_port = -1;  // serves /metrics on this loopback port + local rank; -1: nowhere
  // Receives warnings, one line each; any thread. Unset: standard error.
  std::function<void(std::string_view)> warn = {};
};

// Reads XOE_* variables, and those HOROVOD_* variables that have a meaning here (docs/reference/environment.md).
// `warnings` receives a line for each of the others that is set. `invalid_argument`: names a malformed one.
Result<EngineOptions> read_engine_options(std::vector<std::string>& warnings);

// Runs named operations, submitted by any thread, on all ranks in an order that the ranks agree on.
//
// Agreement: an operation starts once every rank of its process set has submitted its name. Ranks may submit in any
// order. Differing arguments fail that operation, on every rank with the same message (`invalid_argument`, with every
// rank's values), and nothing else. Names repeat from step to step; one name cannot be submitted again before it has
// completed (`invalid_argument`). Any number of operations may be in flight, named or not.
//
// Progress: threads that submit, poll or wait make progress; the progress thread does while no thread waits.
//
// Failures: a lost rank fails every pending and later operation of its process sets with `peer_lost`. Destroying an
// engine fails its pending operations with `unavailable`, and operations that its peers still wait for with
// `peer_lost`. In a process forked after create() every call returns `unavailable`.
//
// Thread safety: any thread may call all members but create() and the destructor at any time, close() too.
class Engine {
 public:
  // Collective. Takes over the communicator, which becomes the world process set.
  static Result<std::unique_ptr<Engine>> create(Communicator world, EngineOptions options = {});
  ~Engine();

  // What the destructor does, while other threads may be in calls of the engine: those end, and all later ones return
  // `unavailable`. Twice is once.
  void close();

  // This rank has failed for a reason of its own, and will end: its peers are told at once, with `why`, in `peer_lost`;
  // the launcher too, which names this rank even if others end before it. For handlers of errors that end a program,
  // where that takes its time. All later calls of operations fail. If the world has failed before, no one is told, and
  // the error is its own. Also in callbacks.
  Status abort(std::string_view why);

  // Lock-free. Returns errors of this call alone; all others complete the handle.
  Result<EngineHandle> submit(const Request& request);
  // submit() and wait(), without waking the progress thread.
  Status run(const Request& request);

  // Ok: this process has a GPU, and may submit its memory. Else `unsupported`, with the reason. For one name all ranks
  // must submit GPU memory, or none.
  Status takes_gpu_memory() const;

  const Topology& topology() const noexcept;

  // `bytes` of memory that all local ranks map; not collective. Tensors in it are reduced without a copy.
  Result<SharedBuffer> shared_buffer(std::size_t bytes);
  // The buffers that the ranks pass, by rank, as this process sees them; empty ones for ranks on other hosts.
  // Collective over the world; `name` as in a Request; all buffers have the same size. What rank r's buffer shows is
  // valid for as long as rank r keeps the buffer that it passed, or has died; its address, for as long as this one is
  // kept. Ranks that write in the same place order that by operations, which see the writes before them.
  // `invalid_argument` on all ranks: a buffer is not of this engine, or sizes differ.
  Result<std::vector<SharedBuffer>> map_peers(const SharedBuffer& mine, std::string_view name);

  // Process sets. add and remove are collective over the world, and ordered like any operation. ranks: of the world, in
  // the order of their ranks in the set. Adding the same ranks again makes another set.
  Result<ProcessSetId> add_process_set(std::span<const int> ranks);
  Status remove_process_set(ProcessSetId set);
  // `invalid_argument`: there is no such set.
  Result<std::vector<int>> process_set_ranks(ProcessSetId set) const;  // world ranks by set rank
  Result<int> process_set_rank(ProcessSetId set) const;  // this rank's; `invalid_argument`: it is not in the set
  std::vector<ProcessSetId> process_sets() const;

  // Starts to write events into a trace, in place of an older file. Collective over the world; rank 0's path counts.
  // Each of several hosts writes its own file: the host's name replaces "{host}" in the path, or is inserted before the
  // ending. stop_timeline() is not collective.
  Status start_timeline(const std::string& path);
  Status stop_timeline();
  // Adds a bar of the caller to the trace, such as "forward", on the lane "compute" or "input".
  void mark(std::string_view lane, std::string_view name, std::chrono::steady_clock::time_point start,
            std::chrono::steady_clock::time_point stop);

  // A training step of this rank has ended: counted in metrics(), and for the panel of `xoe run`. DistributedOptimizer
  // calls it.
  void note_step() noexcept;

  // Prometheus text format 0.0.4.
  std::string metrics() const;

  // For the library's own parts.
  const std::shared_ptr<engine::Runtime>& runtime() const noexcept { return runtime_; }

 private:
  explicit Engine(std::shared_ptr<engine::Runtime> runtime);
  std::shared_ptr<engine::Runtime> runtime_;
};

}  // namespace xoe
