// Data-parallel training: wraps a libtorch optimizer so that every step uses the gradients of all ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>

#include "xoe/communicator.h"
#include "xoe/engine.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}
namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace xoe::torch {

struct DistributedOptions {
  // kAverage or kSum, over ranks.
  ReduceOp op = ReduceOp::kAverage;
  // Gradients are reduced in buckets of about this size, in the reverse order of parameters, each as soon as it is
  // complete. The first one is smaller, so that the reduction starts early.
  std::size_t bucket_bytes = std::size_t{25} << 20;
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  // Gradient accumulation: how many backward passes there are before each step(). Gradients of the passes are summed;
  // only the last pass reduces.
  int backward_passes_per_step = 1;
  // Divide that sum by backward_passes_per_step.
  bool average_passes = false;
  // A parameter without a gradient on this rank contributes zeros when another rank has a gradient for it. When no rank
  // has one: true: its gradient stays undefined, so that the optimizer does not change the parameter and its state, as
  // without Xoe; ranks exchange one byte per parameter and step. false: its gradient is zero, and momentum and weight
  // decay act on it; ranks exchange two bytes per step.
  bool find_unused = true;
  // false: gradients have memory of their own, and are copied to and from the buckets. Parameters that are not in host
  // memory are always copied.
  bool gradient_views = true;
  // All ranks share one copy of the parameters, and each rank runs the optimizer on its part of each bucket only. See
  // DistributedOptimizer.
  bool sharded = false;
  // Of the gradients on their way; unsharded only. kTopK, kPowerSgd, kFloat8 and error feedback look at whole tensors,
  // so that each gradient is a bucket of its own.
  CompressionOptions compression = {};
  // Instead of averaging gradients, each rank's optimizer steps with its own, and the ranks combine what their steps
  // changed. Maleki et al., "Scaling Distributed Training with Adaptive Summation", 2020. For float parameters in host
  // memory; unsharded, without compression.
  bool adasum = false;
  // step() updates the parameters of each bucket as soon as it is reduced, while later ones are on their way: for SGD,
  // Adam and AdamW over dense float32 parameters in host memory; others update at the end, as without it. The same
  // numbers. A failure in the middle of a step() leaves some parameters updated; the error says so. Unsharded, without
  // Adasum.
  bool overlap_step = false;
  // Runs the reductions, in its timeline, metrics and stall reports; not owned, and outlives the optimizer. Its ranks
  // are those of the communicator. Null: one of its own, without timeline and metrics.
  Engine* engine = nullptr;
};

// Wraps any torch::optim optimizer. In place of
//   optimizer.zero_grad(); loss.backward(); optimizer.step();
// write the same with this one. The learning rate and other options stay in the wrapped optimizer's param_groups().
//
// Gradients are views into memory that all ranks of the host map, in buckets. While backward runs, hooks on the
// parameters submit each complete bucket to an engine as one named operation. step() completes all, then runs the
// wrapped optimizer. All ranks run equally many backward passes and steps. A lone rank has no buckets, unless it is
// sharded.
// Gradients are reset by zero_grad(), by the module's or by the wrapped optimizer's; each leaves them undefined, and
// the next backward brings the views back. To look at or change reduced gradients (in place), call synchronize() before
// step().
//
// Sharded: the parameters become views of one copy in shared memory (rank 0's values at creation: no
// broadcast_parameters() needed; buffers, as of batch norm, stay per rank). step() reduce-scatters the gradients, and
// each rank updates its part of that copy. The wrapped optimizer holds flat parts of the parameters meanwhile, and
// 1/size of the state. The parameters change during step() only, which no rank leaves before all are updated. Gradients
// are undefined after step(); between synchronize() and step() only this rank's part of them is reduced. Same numbers
// as unsharded for optimizers that work element by element: SGD, Adam, AdamW, RMSprop, Adagrad; LARS and LAMB, whose
// norms are added up over ranks, differ in their last bits. All ranks must be on one host, and the parameters in host
// memory. End with close(), or destroy it on all ranks.
//
// Sparse gradients are `unsupported`.
//
// Errors: the first one, also of a hook within backward, is returned by this and all later calls; the wrapped optimizer
// is not run then, so that parameters are as after the last complete step. (Sharded: a rank that dies during the update
// itself leaves them half updated; the error says so.)
//
// Thread safety: one thread at a time, backward of these parameters included. The communicator must outlive this
// object, as must the wrapped optimizer; the gradients may outlive all of them.
class DistributedOptimizer {
 public:
  // Collective. `module` gives names to the parameters that `optimizer` holds; parameters with requires_grad == false
  // are ignored. `invalid_argument` on every rank, naming the parameter, when ranks differ in names, shapes, types
  // or options, and where options.engine is of other ranks than `comm`.
  static Result<DistributedOptimizer> create(::torch::optim::Optimizer& optimizer, const ::torch::nn::Module& module,
                                             Communicator& comm, DistributedOptions options = {});
  DistributedOptimizer(DistributedOptimizer&&) noexcept;
  DistributedOptimizer& operator=(DistributedOptimizer&&) noexcept;
  // Removes its hooks. Waits for reductions in flight; sharded: waits for all ranks, and the wrapped optimizer's state
  // is lost.
  ~DistributedOptimizer();

  // Completes the reductions and runs the wrapped optimizer. Collective.
  Status step();
  // With a closure that recomputes the loss (zero_grad, forward, backward) and returns it. Returns the loss averaged
  // over ranks, which the wrapped optimizer sees too, so that LBFGS takes the same decisions on all ranks.
  Result<at::Tensor> step(const std::function<at::Tensor()>& closure);

  // Completes the reductions of this step: gradients hold the result, and the following step() reduces no more.
  // Collective.
  Status synchronize();

  // Drops the gradients. In the middle of a step (after backward, before step()) it completes the reductions first,
  // and all ranks must call it, after a backward pass of their own: a rank without one cannot know that there are
  // reductions to complete. To skip a step in which some rank had no backward pass, all call synchronize() first.
  // Violations are reported by `invalid_argument`, before the wrapped optimizer sees any gradient. set_to_none ==
  // false: gradients become zero instead of undefined.
  Status zero_grad(bool set_to_none = true);

  // Multiplies all gradients, as to undo the scaling of a loss. Calls synchronize() first. Collective.
  Status scale_gradients(double factor);
  // Scales all gradients so that their joint 2-norm is at most `max_norm`, which may be infinite; returns the norm
  // before. Calls synchronize() first. Collective.
  Result<double> clip_grad_norm(double max_norm);
  // Moves every number of the gradients that is beyond -largest or `largest` to that limit, which must be above 0.
  // Calls synchronize() first. Collective.
  Status clip_grad_value(double largest);

  // Collective. Writes on rank 0 what the wrapped optimizer's own save() would write without Xoe; other ranks' archives
  // do not change. The result does not depend on size or sharding, and a plain libtorch program can load it too.
  Status save_state(::torch::serialize::OutputArchive& archive);
  // Not collective, but all ranks must load the same.
  Status load_state(::torch::serialize::InputArchive& archive);

  // Sharded: gives each rank its own copy of the parameters and the wrapped optimizer its whole parameters and state
  // back. Collective. Unsharded: only removes the hooks. Afterwards this object may only be destroyed.
  Status close();

  ::torch::optim::Optimizer& wrapped() noexcept;
  int bucket_count() const noexcept;
  // For how long this rank has waited for others so far, in calls of this object.
  std::chrono::nanoseconds waited() const noexcept;

 private:
  class Core;
  explicit DistributedOptimizer(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace xoe::torch
