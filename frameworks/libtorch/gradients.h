// The gradients of a model: autograd's hooks put them into buckets of the engine, which reduces them while backward
// runs.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/engine/buckets/gradient_buckets.h"
#include "xoe/engine.h"
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

// All gradients of one optimizer. Not movable, because hooks hold a pointer to it. The order of one step: backward
// passes call on_gradient() for each parameter; synchronize(); the optimizer runs; begin_step().
class Gradients {
 public:
  // Collective. Parameters in the order in which backward passes are expected to reach them; name: of the engine's
  // operations. Without buckets gradients are this rank's own, and stay where autograd puts them: for Adasum, and on a
  // lone rank that does not shard.
  static Result<std::unique_ptr<Gradients>> create(std::vector<NamedParameter> parameters, Engine& engine,
                                                   std::string name, const DistributedOptions& options);
  // Peers may be using the buckets, so operations end first.
  ~Gradients();
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  // Reduces the remaining buckets and waits for all. Unsharded: gradients then hold the result, and are undefined for
  // unused parameters. Sharded: the buckets hold this rank's part of the result; see used().
  Status synchronize() { return complete(/*discarding=*/false, {}); }
  // The same, and tells of each parameter whose result is there, to update it while later ones are on their way.
  using Reduced = std::function<void(std::size_t parameter)>;
  Status synchronize_each(const Reduced& reduced) { return complete(/*discarding=*/false, reduced); }
  bool synchronized() const { return synchronized_; }
  // After the optimizer ran: the next backward belongs to a new step.
  void begin_step();
  // Ends a step without using its gradients; see DistributedOptimizer::zero_grad.
  Status discard(bool set_to_none);
  // Later calls return this error too.
  Status fail(Error error);
  bool failed() const;

  // Whether some rank has a gradient for this parameter. After synchronize().
  bool used(std::size_t parameter) const { return slots_[parameter].used; }
  // For how long synchronize() and discard() have waited for other ranks so far.
  std::chrono::nanoseconds waited() const noexcept { return waited_; }

  const std::string& name() const noexcept { return name_; }
  std::span<const NamedParameter> parameters() const noexcept { return parameters_; }
  std::span<const engine::BucketParameter> specs() const noexcept { return specs_; }
  std::size_t buckets() const noexcept { return buckets_ == nullptr ? 0 : buckets_->buckets(); }
  const engine::BucketPlan& plan(std::size_t bucket) const noexcept { return buckets_->plan(bucket); }
  const std::shared_ptr<SharedBuffer>& memory(std::size_t bucket) const noexcept { return buckets_->memory(bucket); }

  class Hook;

 private:
  struct Slot {
    at::Tensor view;      // into the bucket
    bool staged = false;  // the gradient has memory of its own, and is copied
    std::function<void()> remove_hook = {};
    int passes = 0;      // backward passes of this step so far
    bool ready = false;  // this step's gradient is complete
    bool used = false;
  };

  Gradients(std::vector<NamedParameter> parameters, Engine& engine, std::string name,
            const DistributedOptions& options);
  bool divides() const noexcept { return options_.average_passes && options_.backward_passes_per_step > 1; }
  Status lay_out();
  void attach_hooks();

  void on_gradient(std::size_t parameter) noexcept;
  Status collect_gradient(std::size_t parameter);
  Status take(std::size_t parameter, const at::Tensor& gradient, bool last);
  // The gradient is complete; null: this rank has none.
  Status put(std::size_t parameter, const void* gradient);
  Status finish(std::size_t parameter, bool discarding);
  Status complete(bool discarding, const Reduced& reduced);
  Status finish_reductions(bool discarding, const Reduced& reduced);
  Status exchange_flags(bool discarding);
  Status wait_for_buckets(const Reduced& reduced);
  void show_result(std::size_t parameter);
  void reset();

  Engine& engine_;
  const std::string name_;
  const DistributedOptions options_;
  std::vector<NamedParameter> parameters_;
  std::vector<engine::BucketParameter> specs_;
  std::vector<Slot> slots_;                           // by parameter
  std::unique_ptr<engine::GradientBuckets> buckets_;  // may be null
  SharedBuffer flags_;                                // one byte per parameter, then two of the agreement
  std::chrono::nanoseconds waited_{0};

  // Autograd calls hooks from several threads when parameters are on several devices.
  mutable std::mutex mutex_;
  std::optional<Error> error_;
  bool synchronized_ = false;
};

}  // namespace xoe::torch
