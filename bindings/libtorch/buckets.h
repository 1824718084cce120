// Gradients in shared memory, which autograd fills, and which are reduced bucket by bucket while backward runs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shard_layout.h"
#include "xoe/communicator.h"
#include "xoe/torch/optimizer.h"

namespace xoe::torch {

struct NamedParameter {
  std::string name;
  at::Tensor tensor;
};

// A tensor of `parameter`'s shape and (where dense) strides over the elements at `data`, which `owner` keeps alive.
at::Tensor tensor_over(void* data, const at::Tensor& parameter, std::shared_ptr<void> owner);
// A flat tensor over `count` elements at `data`.
at::Tensor flat_over(void* data, std::size_t count, at::ScalarType type, std::shared_ptr<void> owner);
// Summed in float64.
double squared_norm_of(const at::Tensor& gradient);

// All buckets of one optimizer. Not movable, because hooks hold a pointer to it. The order of one step: backward passes
// call on_gradient() for each parameter; synchronize(); the optimizer runs; begin_step().
class GradientBuckets {
 public:
  static Result<std::unique_ptr<GradientBuckets>> create(std::vector<NamedParameter> parameters, Communicator& comm,
                                                         const DistributedOptions& options);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // Reduces the remaining buckets and waits for all. Unsharded: gradients then hold the result, and are undefined for
  // unused parameters. Sharded: the buckets hold this rank's part of the result; see used().
  Status synchronize() { return complete(/*discarding=*/false); }
  // After the optimizer ran: the next backward belongs to a new step.
  void begin_step();
  // Ends a step without using its gradients; see DistributedOptimizer::zero_grad.
  Status discard(bool set_to_none);
  // Later calls return this error too.
  Status fail(Error error);
  bool failed() const;

  // Whether some rank has a gradient for this parameter. After synchronize().
  bool used(std::size_t parameter) const { return slots_[parameter].used; }

  std::span<const NamedParameter> parameters() const noexcept { return parameters_; }
  std::span<const BucketParameter> specs() const noexcept { return specs_; }
  int bucket_count() const noexcept { return static_cast<int>(buckets_.size()); }
  const BucketPlan& plan(std::size_t bucket) const { return buckets_[bucket].plan; }
  BucketInfo info(std::size_t bucket) const;
  std::byte* data(std::size_t bucket) const { return buckets_[bucket].data; }
  std::shared_ptr<void> owner(std::size_t bucket) const { return buckets_[bucket].memory; }

  class Hook;

 private:
  struct Slot {
    std::size_t bucket = 0;
    at::Tensor view;      // into the bucket; of a lone rank's GPU tensors, of its own
    bool staged = false;  // the gradient has memory of its own, and is copied
    std::function<void()> remove_hook = {};
    int passes = 0;      // backward passes of this step so far
    bool ready = false;  // this step's gradient is complete in the bucket
    bool used = false;
  };
  struct Bucket {
    BucketPlan plan;
    std::string name;
    std::vector<std::size_t> shards;  // sharded: elements per rank
    std::shared_ptr<SharedBuffer> memory;
    std::byte* data = nullptr;
    std::size_t pending = 0;  // parameters that are not ready
    Handle reduction;
  };

  GradientBuckets(std::vector<NamedParameter> parameters, Communicator& comm, const DistributedOptions& options);
  Status allocate();
  void attach_hooks();

  void on_gradient(std::size_t parameter) noexcept;
  Status collect_gradient(std::size_t parameter);
  Status move_into_view(std::size_t parameter, const at::Tensor& gradient);
  Status settle(std::size_t parameter, bool discarding);
  void mark_ready(std::size_t parameter);
  Status advance();
  Status start(std::size_t bucket);
  Status complete(bool discarding);
  Status finish_reductions(bool discarding);
  Status wait_for_all(bool discarding);
  void restore_views(std::size_t parameter);
  void reset();

  Communicator& comm_;
  const DistributedOptions options_;
  std::vector<NamedParameter> parameters_;
  std::vector<BucketParameter> specs_;
  std::vector<Slot> slots_;  // by parameter
  std::vector<Bucket> buckets_;
  SharedBuffer used_;  // one byte per parameter, then two of the agreement

  // Autograd calls hooks from several threads when parameters are on several devices.
  mutable std::mutex mutex_;
  std::optional<Error> error_;
  std::size_t started_ = 0;  // buckets whose reduction has started: always the first ones
  std::size_t stopped_ = 0;  // buckets whose reduction has completed
  bool synchronized_ = false;
};

}  // namespace xoe::torch
