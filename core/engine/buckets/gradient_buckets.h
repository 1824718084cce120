// Gradients in memory that all ranks of a host map, reduced bucket by bucket as they become ready.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/engine/buckets/bucket_plan.h"
#include "core/engine/buckets/idle_processors.h"
#include "core/engine/runtime/runtime.h"
#include "xoe/engine.h"
#include "xoe/memory.h"

namespace xoe::engine {

struct BucketOptions {
  std::string name;  // the beginning of the names of operations; the same on all ranks
  // kAllreduce: reduction, scales, compression. kReduceScatter: after wait() each rank has the results of its own part
  // of each bucket only, see part_of().
  OpSpec op;
  ProcessSetId process_set = kWorldSet;
  std::chrono::nanoseconds timeout{0};  // Request::timeout
  std::size_t bytes = 0;                // of a bucket; 0: the engine's. Set rank 0's counts
  std::size_t first_bytes = 0;          // of the bucket that becomes full first; 0: as the others
};

// One step: put() or leave_out() for each parameter in the buckets, in any order, by any thread; then wait(). A bucket
// whose gradients are all there is one operation of the engine, named after its first and last parameter. After wait()
// the slots hold the results, until the next put().
//
// Thread safety: any thread may call put(), leave_out() and slot() at any time; the caller calls wait() and reset()
// when no other call is under way.
class GradientBuckets {
 public:
  // Collective over the process set. parameters: this rank's, each name once, in the order in which their gradients
  // become ready. Set rank 0's order counts; a parameter that not all ranks have with the same type and shape is not in
  // the buckets. Where compression looks at whole tensors, each has a bucket of its own. No rank gets buckets where one
  // has joined (`invalid_argument`), or where a rank has no shared memory left (`resource_exhausted`).
  static Result<std::unique_ptr<GradientBuckets>> create(const std::shared_ptr<Runtime>& runtime,
                                                         std::vector<BucketParameter> parameters,
                                                         BucketOptions options);
  ~GradientBuckets() = default;  // operations that are under way keep their memory; see drain()
  GradientBuckets(const GradientBuckets&) = delete;

  std::size_t parameters() const noexcept { return slots_.size(); }
  std::size_t buckets() const noexcept { return buckets_.size(); }
  // A parameter's place in its bucket; null: it is not in the buckets. It stays while this object or an operation
  // lives.
  std::byte* slot(std::size_t parameter) const noexcept { return slots_[parameter].data; }
  // Parameters as create() got them, of the buckets in the order in which they become full.
  const BucketPlan& plan(std::size_t bucket) const noexcept { return buckets_[bucket].plan; }
  const std::shared_ptr<SharedBuffer>& memory(std::size_t bucket) const noexcept { return buckets_[bucket].memory; }

  // This step's gradient of a parameter: copied to its slot unless it is there, and reduced once its bucket is
  // complete. Null: this rank did not compute it; zeros. `invalid_argument`: the parameter has no slot, or its gradient
  // is there.
  Status put(std::size_t parameter, const void* gradient);
  // This rank does not train the parameter, or its gradient does not fit the slot any more. If another rank puts one,
  // the step fails on all ranks, with an error that names the parameter (`invalid_argument`).
  Status leave_out(std::size_t parameter);

  // Waits for all buckets. False: not completed within `timeout`; call it again. An error, or true, ends the step.
  // `invalid_argument`: names the gradients that are not there; the step goes on then.
  Result<bool> wait(std::chrono::nanoseconds timeout);
  // Waits for one bucket, whose slots hold the results then; wait() ends the step. An error ends it here.
  // `invalid_argument`: names the bucket's gradients that are not there; the step goes on then.
  Status wait_for(std::size_t bucket);
  // Ends the step without its results. What peers can still complete goes on; the next put() waits for it.
  void reset();
  // Waits for the operations that are under way, whatever becomes of them: peers may use this rank's memory until then.
  void drain();

 private:
  struct Bucket {
    std::string name;
    BucketPlan plan;
    std::shared_ptr<SharedBuffer> memory;
    std::byte* result = nullptr;  // in `memory`
    std::size_t missing = 0;      // gradients
    EngineHandle operation = {};
  };
  struct Slot {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::size_t bucket = 0;
    bool ready = false;
    bool left_out = false;
  };

  GradientBuckets(const std::shared_ptr<Runtime>& runtime, std::vector<BucketParameter> parameters,
                  BucketOptions options);

  BucketLimits limits(std::size_t bucket_bytes) const;
  Status allocate(const std::vector<BucketParameter>& common, std::size_t bucket_bytes);
  // Prepares the slot for writing.
  Status begin(std::size_t parameter);
  // The slot holds the gradient.
  Status finish(std::size_t parameter, bool left_out);
  Result<EngineHandle> submit(Bucket& bucket);
  Result<std::size_t> elements_before_own(const Runtime& runtime, const BucketPlan& plan) const;
  Result<EngineHandle> run(const Request& request);
  std::string left_out_of(const Bucket& bucket) const;
  Status check_complete(const Bucket& bucket) const;
  void end_step();

  const std::weak_ptr<Runtime> runtime_;
  const std::vector<BucketParameter> parameters_;
  const BucketOptions options_;
  const bool one_host_;
  // On one host the thread that waits reduces, since a progress thread would take a processor from backward passes.
  // Where there is processor time to spare, as while an accelerator computes, it reduces during backward.
  std::atomic<Runtime::Use> use_;
  std::vector<Slot> slots_;  // by parameter
  std::vector<Bucket> buckets_;
  bool past_cache_ = false;  // they are larger than the caches
  std::size_t waited_ = 0;   // buckets whose operations have completed in wait()
  IdleProcessors idle_;
  std::mutex mutex_;  // of what changes in slots and buckets
};

}  // namespace xoe::engine
