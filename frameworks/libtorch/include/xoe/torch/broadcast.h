// Copies a model and an optimizer from one rank to all.
#pragma once

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

}  // namespace xoe::torch
