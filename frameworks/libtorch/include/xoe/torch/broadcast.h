// Copies a model and an optimizer from one rank to all.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "xoe/communicator.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace xoe::torch {

// Copies parameters and buffers of `root` to all ranks, packed into few broadcasts. Collective. When names, shapes or
// types differ between ranks: `invalid_argument` on every rank, naming the first tensor that differs, before any
// change.
Status broadcast_parameters(::torch::nn::Module& module, Communicator& comm, int root = 0);

// Copies state (momentum, moments, step counts) and options (learning rate, ...) of every parameter group of `root` to
// all ranks. Collective. All ranks have the same kind of optimizer over parameters of the same shapes, else
// `invalid_argument` on every rank. For an optimizer that a DistributedOptimizer holds sharded, use save_state() and
// load_state() instead.
Status broadcast_optimizer_state(::torch::optim::Optimizer& optimizer, Communicator& comm, int root = 0);

// When a tensor that is sent has its new value on a rank that gets it.
enum class Arrival : std::uint8_t {
  kTogether,  // once all have arrived: an exchange that fails changes none
  kOneByOne,  // an exchange that fails leaves some changed; this takes no memory beside the tensors' own
};

// Copies tensors that the ranks of `from` have alike to the ranks of `to`: each of `from` gives as many bytes.
// Collective, also for ranks that are in neither; all pass tensors of the same shapes and types, in the same order, and
// the same ranks, in ascending order, of which `from` has one at least. arrival: this rank's own choice.
Status send_in_parts(std::span<const at::Tensor> tensors, Communicator& comm, std::span<const int> from,
                     std::span<const int> to, Arrival arrival = Arrival::kTogether);

// The tensors of an optimizer's state, in the order of its parameters, and all its step counts as one more: for
// send_in_parts(). Collective: every rank gets as many tensors as `root` has; those that it did not have are zeros. The
// optimizer is one that a DistributedOptimizer can shard, else `unsupported`.
Result<std::vector<at::Tensor>> same_optimizer_state(::torch::optim::Optimizer& optimizer, Communicator& comm,
                                                     int root);
// Takes the step counts, the last of these tensors, over into the optimizer.
void set_step_counts(::torch::optim::Optimizer& optimizer, const at::Tensor& counts);

}  // namespace xoe::torch
